//! System calls that std does not use: `examples/abi_calls`.

use crate::test::images::FIFO_CALLS;
use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Numbers of CPUs.
const CPUS: [u32; 2] = [1, 2];

/// Checks of `examples/abi_calls`, by argument.
const CHECKS: [&str; 22] = [
    "backtrace",
    "block",
    "copies",
    "descriptors",
    "errno",
    "eventfd",
    "exhausted",
    "futex",
    "heap",
    "lookup",
    "mmap",
    "mmap-parallel",
    "nanosleep",
    "page-size",
    "paths",
    "poll",
    "priorities",
    "queues",
    "random",
    "reclaim",
    "semaphores",
    "spawn",
];

/// Memory in MiB for the check of the heap, which uses a large part of it. `mmap` exhausts the usual memory.
const MEMORY_FOR_HEAP: u64 = 2048;

/// Memory in MiB for the checks that exhaust it in small blocks.
const MEMORY_TO_EXHAUST: u64 = 64;

/// Number of boots with a first use of a device, which the other thread meets in about every second one.
const FIRST_USES: u32 = 5;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    for cpus in CPUS {
        for check in CHECKS {
            let guest = platform.guest("abi_calls", &[check]).cpus(cpus);
            let guest = match check {
                "heap" => guest.memory(MEMORY_FOR_HEAP),
                "exhausted" | "reclaim" => guest.memory(MEMORY_TO_EXHAUST),
                _ => guest,
            };
            tests.add(format!("{platform}, CPUs {cpus}: abi_calls {check}"), move || {
                guest.expect(0, &["ok"]).map(drop)
            });
        }
    }
    tests.add(format!("{platform}, policy fifo: abi_calls first-use"), move || {
        // A device is used for the first time once in each boot.
        let boot = |_| platform.guest(FIFO_CALLS, &["first-use"]).expect(0, &["ok"]).map(drop);
        (0..FIRST_USES).try_for_each(boot)
    });
}
