//! The thread that returns free memory to the host. It exists only while there is memory to return.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU64};

use hermit_abi::NORMAL_PRIO;
use hermit_hal::{clock, memory};

use super::lifecycle::{self, SpawnArgs};
use super::schedule;
use crate::devices;

/// Length of a period in nanoseconds. Memory is returned when it has been free for one to two periods.
const PERIOD: u64 = 1_000_000_000;

/// Stack size of the thread in bytes.
const STACK_SIZE: usize = 16 << 10;

/// True while the thread exists.
static RUNS: AtomicBool = AtomicBool::new(false);

/// Earliest time of the monotonic clock, in nanoseconds, at which the thread may be started. A start without
/// memory frees caches and stacks, so there is at most one attempt per period.
static NEXT_START: AtomicU64 = AtomicU64::new(0);

/// Sets the hook that starts the thread when enough memory has been freed.
pub(crate) fn init() {
    memory::set_return_hook(start);
}

/// Starts the thread unless it exists. If there is no memory for the thread, a later free tries again.
fn start() {
    // While the thread exists, frees only read `RUNS`, so CPUs do not contend for its cache line.
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
    // The flag is cleared before the check below. A free that still finds the flag set has made memory due
    // before, so the check sees this.
    RUNS.swap(false, SeqCst);
    if memory::is_return_due() {
        start();
    }
}
