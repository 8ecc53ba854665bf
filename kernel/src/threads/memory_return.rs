//! The thread that returns free memory to the host. It exists while there is something to return.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU64};

use hermit_abi::NORMAL_PRIO;
use hermit_hal::{clock, memory};

use super::lifecycle::{self, SpawnArgs};
use super::schedule;
use crate::devices;

/// Length of a period in nanoseconds: memory that is free for one to two periods is returned.
const PERIOD: u64 = 1_000_000_000;

/// Stack size of the thread in bytes.
const STACK_SIZE: usize = 16 << 10;

/// True while the thread exists.
static RUNS: AtomicBool = AtomicBool::new(false);

/// Time of the monotonic clock from which the thread may be started, in nanoseconds. An attempt without
/// memory gives up caches and stacks, so there is one in a period at most.
static NEXT_START: AtomicU64 = AtomicU64::new(0);

/// Sets the hook that starts the thread when enough memory was freed.
pub(crate) fn init() {
    memory::set_return_hook(start);
}

/// Starts the thread unless it exists. Without memory for it, a later free tries again.
fn start() {
    // All frees while it exists only read.
    if RUNS.load(Relaxed) || clock::monotonic() < NEXT_START.load(Relaxed) || RUNS.swap(true, SeqCst) {
        return;
    }
    let args =
        SpawnArgs { function: (run, 0), priority: NORMAL_PRIO.into(), stack_size: STACK_SIZE, cpu: None };
    if lifecycle::spawn_for_kernel(&args).is_err() {
        NEXT_START.store(clock::monotonic() + PERIOD, Relaxed);
        RUNS.store(false, SeqCst);
    }
}

extern "C" fn run(_: usize) {
    loop {
        schedule::sleep_until(clock::monotonic() + PERIOD);
        if !memory::return_freed(devices::has_balloon, devices::report_free_memory) {
            break;
        }
    }
    // Before the next look, as a free that finds the thread still there has set what that sees.
    RUNS.swap(false, SeqCst);
    if memory::is_return_due() {
        start();
    }
}
