//! Tests of system calls that std does not use: `kernel/tests/abi_calls`.

use crate::test::images::{BUMP_CALLS, FIFO_CALLS, TLSF_CALLS};
use crate::test::platform::TestPlatform;
use crate::test::schedule::Tests;

/// Numbers of CPUs.
const CPUS: [u32; 2] = [1, 2];

/// Checks of `kernel/tests/abi_calls`, by argument.
const CHECKS: [&str; 24] = [
    "backtrace",
    "block",
    "copies",
    "descriptors",
    "errno",
    "eventfd",
    "exhausted",
    "exhausted-network",
    "futex",
    "heap",
    "lookup",
    "mmap",
    "mmap-parallel",
    "names",
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

/// Memory in MiB for the check `heap`, which uses a large part of the memory. The check `mmap` exhausts its
/// memory, so it keeps the default size.
const MEMORY_FOR_HEAP: u64 = 2048;

/// Memory in MiB for the checks that exhaust the memory in small blocks.
const MEMORY_TO_EXHAUST: u64 = 64;

/// Number of boots for the check `first-use`, in which two threads use a device for the first time. In about
/// every second boot, they do so at the same time.
const FIRST_USES: u32 = 5;

/// Checks of the heap with other allocators, by image. `bump` has no check that exhausts the memory twice, or
/// frees it step by step, because it frees too little memory.
const ALLOCATOR_CHECKS: [(&str, &[&str]); 2] = [
    (BUMP_CALLS, &["exhausted-once", "heap", "last-block"]),
    (TLSF_CALLS, &["exhausted", "heap", "reclaim"]),
];

/// Returns the memory in MiB for a check. Returns `None` for the default.
fn memory(check: &str) -> Option<u64> {
    match check {
        "heap" => Some(MEMORY_FOR_HEAP),
        "exhausted" | "exhausted-once" | "exhausted-network" | "reclaim" => Some(MEMORY_TO_EXHAUST),
        _ => None,
    }
}

pub(super) fn test<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>) {
    for cpus in CPUS {
        for check in CHECKS {
            add(tests, platform, "abi_calls", cpus, check);
        }
        for (image, checks) in ALLOCATOR_CHECKS {
            checks.iter().for_each(|check| add(tests, platform, image, cpus, check));
        }
    }
    tests.add(format!("{platform}, policy fifo: abi_calls first-use"), move || {
        // A boot has only one first use of a device, so the check needs several boots.
        let boot = |_| platform.guest(FIFO_CALLS, &["first-use"]).expect(0, &["ok"]).map(drop);
        (0..FIRST_USES).try_for_each(boot)
    });
}

/// Adds a check of an image.
fn add<'a>(tests: &mut Tests<'a>, platform: &'a TestPlatform<'_>, image: &str, cpus: u32, check: &str) {
    let guest = platform.guest(image, &[check]).cpus(cpus);
    // The check `exhausted-network` needs a network device, because without a device the network stack
    // allocates less.
    let is_connected = check == "exhausted-network";
    let guest = if is_connected { guest.connected() } else { guest };
    let guest = match memory(check) {
        Some(megabytes) => guest.memory(megabytes),
        None => guest,
    };
    tests
        .add(format!("{platform}, CPUs {cpus}: {image} {check}"), move || guest.expect(0, &["ok"]).map(drop));
}
