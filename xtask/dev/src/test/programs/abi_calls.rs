//! What programs can ask of the kernel beyond std: `examples/abi_calls`.

use crate::test::platform::Platform;
use crate::test::schedule::Tests;

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

/// The check of the heap takes a large part of it, in MiB. With the usual memory, `mmap` comes to the end of it.
const MEMORY_FOR_HEAP: u64 = 2048;

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a Platform<'_>) {
    for cpus in CPUS {
        for check in CHECKS {
            let guest = platform.guest("abi_calls", &[check]).cpus(cpus);
            let guest = if check == "heap" { guest.memory(MEMORY_FOR_HEAP) } else { guest };
            tests.add(format!("{platform}, CPUs {cpus}: abi_calls {check}"), move || {
                guest.expect(0, &["ok"]).map(drop)
            });
        }
    }
}
