//! Tests that neither of the two processes of the process engine, uhyve and the guest, outlives the other.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use hermit_toolchain::process;

use super::Fixture;
use crate::children::children;
use crate::test::child::ChildProcess;
use crate::test::schedule::Tests;

/// Time limit for a process to end.
const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) fn test<'a>(tests: &mut Tests<'a>, fixture: &'a Fixture<'_>) {
    for signal in ["KILL", "TERM"] {
        fixture.add(tests, &format!("the guest ends with uhyve, SIG{signal}"), move || {
            let (running, guest) = start(fixture)?;
            running.signal(signal)?;
            running.end()?;
            has_ended(guest)
        });
    }
    fixture.add(tests, "uhyve ends with the guest", move || {
        let (running, guest) = start(fixture)?;
        process::run(Command::new("sh").args(["-c", &format!("kill -KILL {guest}")]))?;
        running.end()?.check(125, &["uhyve: error: "])
    });
}

/// Starts a guest that waits. Returns uhyve's process and the ID of the guest's process.
fn start(fixture: &Fixture<'_>) -> Result<(ChildProcess, u32)> {
    let running = fixture.command("stdin", &[]).waits().start()?;
    running.has_printed(b"READY")?;
    let guest = guest_of(&running)?;
    Ok((running, guest))
}

/// Returns the ID of the guest's process.
pub(super) fn guest_of(uhyve: &ChildProcess) -> Result<u32> {
    match children(uhyve.id())?[..] {
        [guest] => Ok(guest),
        ref children => bail!("uhyve has not one child but {children:?}"),
    }
}

/// Waits until the process has ended. A zombie counts as ended.
pub(in crate::test) fn has_ended(process: u32) -> Result<()> {
    let start = Instant::now();
    while fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|state| !state.contains(") Z ")) {
        ensure!(start.elapsed() < TIMEOUT, "process {process} is still there");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
