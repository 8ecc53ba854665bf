//! Tests that memory that a guest frees returns to the host.

use anyhow::{Context, Result, ensure};
use hermit_machines::uhyve::Engine;

use super::Fixture;
use super::process_lifetime::guest_of;
use crate::test::child::{ChildInput, ChildProcess};
use crate::test::memory_return::{MACHINE, SPIKE, arguments, number_behind, returns, wait_until_resident};
use crate::test::schedule::Tests;

/// Memory that the guest of [`contents_are_right`] uses and frees, in MiB.
const CHECKED_SPIKE: u64 = 128;

/// Maximum resident memory of an idle guest in kB: image, stacks and heap. On KVM, the memory of uhyve itself
/// is included.
const MAX_IDLE: u64 = 6 << 10;

pub(super) fn test<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    fixture.add(tests, "freed memory returns to the host", move || freed_memory_returns(fixture));
    // The program checks each byte, which would take minutes on a KVM that emulates in software.
    for cpus in [1, 2].into_iter().filter(|_| fixture.platform.is_native()) {
        fixture.add(
            tests,
            &format!("bytes are right after memory returned to the host, {cpus} CPUs"),
            move || contents_are_right(fixture, cpus),
        );
    }
}

/// Returns the process with the guest's memory, and the field of its status that counts this memory. On KVM
/// the process is uhyve itself, and on the process engine it is the guest's process.
fn memory_of(fixture: &Fixture<'_>, running: &ChildProcess) -> Result<(u32, &'static str)> {
    Ok(match fixture.engine {
        Engine::Process => (guest_of(running)?, "RssShmem"),
        Engine::Kvm => (running.id(), "RssAnon"),
    })
}

fn freed_memory_returns(fixture: &Fixture<'_>) -> Result<()> {
    let guest = fixture.command("threads", &arguments().each_ref().map(String::as_str));
    let guest = guest.options(&["--stats", "--memory", MACHINE]).reads(ChildInput::Open(Vec::new()));
    let running = guest.start()?;
    running.has_printed(b"started")?;
    returns(&running, memory_of(fixture, &running)?.0)?;
    let outcome = running.end()?;
    outcome.check(0, &["ok"])?;
    check_statistics(&outcome.error_text(), SPIKE).with_context(|| outcome.to_string())
}

fn contents_are_right(fixture: &Fixture<'_>, cpus: u32) -> Result<()> {
    let guest = fixture.command("threads", &["spike", &CHECKED_SPIKE.to_string()]).cpus(cpus);
    let guest = guest.options(&["--stats", "--memory", "192M"]).reads(ChildInput::Open(Vec::new()));
    let mut running = guest.start()?;
    running.has_printed(b"freed")?;
    let (process, field) = memory_of(fixture, &running)?;
    wait_until_resident(process, field, MAX_IDLE)?;
    running.close_input();
    let outcome = running.end()?;
    outcome.check(0, &["ok"])?;
    check_statistics(&outcome.error_text(), CHECKED_SPIKE).with_context(|| outcome.to_string())
}

/// Checks that the peak and the returned memory in uhyve's statistics are at least nearly `spike` MiB.
fn check_statistics(text: &str, spike: u64) -> Result<()> {
    for before in ["the guest has returned ", "at most "] {
        let kilobytes = number_behind(text, before).context("the statistics lack a number")?;
        ensure!(kilobytes >= (spike - 2) << 10, "{before}{kilobytes} kB");
    }
    Ok(())
}
