//! What programs do in a machine: the same on QEMU and on every engine of uhyve.
//!
//! Where a KVM merely emulates the processor, a small part of it: what depends on the machine, and takes seconds.

mod abi;
mod clock;
mod crates;
mod faults;
mod hello;
mod input;
mod network;
mod threads;

use anyhow::Result;

use super::host::Host;
use super::report::Report;

/// Memory for a guest that needs much, in MiB.
const MUCH_MEMORY: u64 = 1024;

/// Tests everything that the host has time for.
pub(super) fn test(report: &mut Report, host: &Host<'_>, long: bool) -> Result<()> {
    hello::test(report, host, long);
    faults::test(report, host);
    input::test(report, host);
    threads::test(report, host, long);
    if host.is_slow() {
        network::test_light(report, host);
        return Ok(());
    }
    abi::test(report, host);
    clock::test(report, host);
    crates::test(report, host)?;
    network::test(report, host, long);
    Ok(())
}
