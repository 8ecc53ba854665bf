//! What programs can ask of the kernel beyond std, in virtual machines with one and two CPUs.

use std::path::Path;

use anyhow::Result;

use super::guests::{Examples, example, expect};
use super::report::Report;
use crate::qemu::Guest;

/// How many CPUs a machine has.
const CPUS: [u32; 2] = [1, 2];

/// What `examples/abi_calls` is told.
const CHECKS: [&str; 13] = [
    "block",
    "errno",
    "eventfd",
    "futex",
    "heap",
    "mmap",
    "nanosleep",
    "page-size",
    "poll",
    "priorities",
    "queues",
    "semaphores",
    "spawn",
];

/// The memory of a machine. With this much, `mmap` comes to the end of it.
const MEMORY: &str = "128M";

/// The memory for the check of the heap, which takes a large part of it.
const MUCH_MEMORY: &str = "2G";

pub(crate) fn test(report: &mut Report, examples: &Examples) -> Result<()> {
    let image = example("abi_calls", true)?;
    for cpus in CPUS {
        for check in CHECKS {
            report.check(&format!("calls, CPUs {cpus}: {check}"), || succeeds(examples, &image, cpus, check));
        }
    }
    Ok(())
}

fn succeeds(examples: &Examples, image: &Path, cpus: u32, check: &str) -> Result<()> {
    let memory = if check == "heap" { MUCH_MEMORY } else { MEMORY };
    let memory = memory.parse().map_err(anyhow::Error::msg)?;
    let guest = Guest { cpus, memory, ..examples.guest(image, &[check]) };
    expect(&guest, b"", 0, &["ok"]).map(drop)
}
