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
use super::schedule::Tests;

/// Memory for a guest that needs much, in MiB.
const MUCH_MEMORY: u64 = 1024;

/// Tests everything that the host has time for.
pub(super) fn test<'a>(tests: &mut Tests<'a>, host: &'a Host<'_>, long: bool) -> Result<()> {
    hello::test(tests, host, long);
    faults::test(tests, host);
    input::test(tests, host);
    threads::test(tests, host, long);
    if host.is_slow() {
        network::test_light(tests, host);
        return Ok(());
    }
    abi::test(tests, host);
    clock::test(tests, host);
    crates::test(tests, host)?;
    network::test(tests, host, long);
    Ok(())
}
