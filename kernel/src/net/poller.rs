//! The thread that drives the stack when nobody else does.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::task::Poll;

use hermit_abi::HIGH_PRIO;
use hermit_hal::clock;
use hermit_interface::Errno;
use hermit_io::WaitQueue as _;

use super::{NETWORK, leader, poll};
use crate::sync::WaitQueue;
use crate::threads::lifecycle::{self, SpawnArgs};
use crate::threads::schedule;
use crate::threads::wait::block_until;

/// The stack of the thread: frames are handled on it.
const STACK_SIZE: usize = 256 << 10;

/// After so many rounds without an end others have their turn: what comes faster than it is used is dropped by the device, and a
/// flood does not keep programs from running.
const MOST_ROUNDS: u32 = 16;

/// How long they have it, in nanoseconds.
const PAUSE: u64 = 1_000_000;

/// The thread, when it waits.
static WAITER: WaitQueue = WaitQueue::new();

/// The moment at which the thread will be there by itself; while it does not know, whoever knows one calls it.
static WAKES: AtomicU64 = AtomicU64::new(u64::MAX);

/// Whether it has been called since it looked last.
static CALLED: AtomicBool = AtomicBool::new(false);

/// Starts it.
pub(super) fn start() -> Result<(), Errno> {
    // What arrives does not wait for a program that computes.
    let priority = HIGH_PRIO.into();
    let args = SpawnArgs { function: (run, 0), priority, stack_size: STACK_SIZE, cpu: None };
    // The caller's socket can wait for nothing, as `EAGAIN` of a socket would say.
    lifecycle::spawn(&args).map(drop).map_err(|_| Errno::ENOMEM)
}

/// Has the thread drive the stack.
pub(super) fn call() {
    CALLED.store(true, Release);
    WAITER.wake();
}

/// Has the thread drive the stack at a moment at the latest.
pub(super) fn be_there(moment: u64) {
    if moment < WAKES.load(Acquire) {
        call();
    }
}

extern "C" fn run(_: usize) {
    let Some(network) = NETWORK.get() else { return };
    let mut rounds = 0;
    loop {
        WAKES.store(u64::MAX, Release);
        let next = network.with(poll);
        WAKES.store(next, Release);
        if next <= clock::monotonic() || leader::arm() {
            rounds += 1;
            if rounds == MOST_ROUNDS {
                rounds = 0;
                schedule::sleep_until(clock::monotonic() + PAUSE);
            }
            continue;
        }
        rounds = 0;
        let deadline = (next != u64::MAX).then_some(next);
        block_until(deadline, |context| {
            WAITER.add(context);
            if CALLED.swap(false, AcqRel) { Poll::Ready(()) } else { Poll::Pending }
        });
        // Until everything has been taken, the device need not interrupt.
        leader::disarm();
    }
}
