//! Tests that threads keep their vector registers and floating-point control words: `kernel/tests/vectors`.

use std::fs;

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::MUCH_MEMORY;
use crate::test::platform::TestPlatform;
use crate::test::report::note;
use crate::test::schedule::Tests;

/// Numbers of CPUs.
const CPUS: [u32; 3] = [1, 2, 4];

/// Size in bytes of the disk. The interrupts of the disk disturb the threads.
const DISK: usize = 64 << 10;

/// Processors of QEMU that are tested in addition to its best one: one without AVX, where XSAVE saves only
/// SSE state, and one without XSAVE.
const PROCESSORS: [&str; 2] = ["max,-avx", "max,-xsave"];

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    if platform.is_slow() {
        let reason = "KVM emulates here, and its emulator has no vector instructions";
        return tests.skip(format!("{platform}: vectors"), reason);
    }
    for cpus in CPUS {
        tests.add(format!("{platform}, CPUs {cpus}: vectors"), move || run(platform, cpus, None));
    }
    for processor in PROCESSORS.into_iter().filter(|_| !platform.is_uhyve()) {
        let name = format!("{platform}, CPUs 2, processor {processor}: vectors");
        tests.add(name, move || run(platform, 2, Some(processor)));
    }
}

fn run(platform: &TestPlatform<'_>, cpus: u32, processor: Option<&str>) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let disk = folder.path().join("disk");
    fs::write(&disk, vec![0; DISK]).context("cannot write a disk")?;
    let guest = platform.guest("vectors", &["/dev/vda"]).cpus(cpus).memory(MUCH_MEMORY).disk(&disk);
    let guest = match processor {
        Some(processor) => guest.qemu_options(&["-cpu", processor]),
        None => guest,
    };
    let outcome = guest.expect(0, &["ok"])?;
    outcome.text().lines().filter(|line| line.contains("kept")).for_each(note);
    Ok(())
}
