//! Tests that run programs as guests. QEMU and each engine of uhyve run the same tests.
//!
//! If KVM emulates the processor, only a part of the tests run: those that depend on the machine and take
//! only seconds.

mod abi_calls;
mod c_code;
mod clock;
mod computations;
mod faults;
mod files;
mod hello_world;
mod initramfs;
mod network;
mod starts;
mod stdin;
mod streams;
mod termination;
mod third_party;
mod threads;
mod unwinding;
mod vectors;

use anyhow::Result;

pub(super) use self::network::{serves, soak};
use super::platform::TestPlatform;
use super::schedule::Tests;

/// Memory in MiB of a guest that needs much memory.
const MUCH_MEMORY: u64 = 1024;

/// Adds all tests that the host has time for.
pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, long: bool) -> Result<()> {
    hello_world::test(tests, platform, long);
    starts::test(tests, platform, long);
    faults::test(tests, platform);
    stdin::test(tests, platform);
    streams::test(tests, platform);
    termination::test(tests, platform);
    threads::test(tests, platform, long);
    vectors::test(tests, platform);
    if platform.is_slow() {
        network::test_light(tests, platform, long);
        return Ok(());
    }
    abi_calls::test(tests, platform);
    clock::test(tests, platform);
    files::test(tests, platform);
    computations::test(tests, platform);
    initramfs::test(tests, platform);
    unwinding::test(tests, platform);
    third_party::test(tests, platform)?;
    c_code::test(tests, platform)?;
    network::test(tests, platform, long);
    Ok(())
}
