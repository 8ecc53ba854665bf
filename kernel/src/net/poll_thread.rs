//! The poll thread: polls the stack when no other thread does.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::task::Poll;

use hermit_abi::HIGH_PRIO;
use hermit_hal::clock;
use hermit_interface::Errno;

use super::{NETWORK, poll, rx_interrupt};
use crate::sync::WaitQueue;
use crate::threads::lifecycle::{self, SpawnArgs};
use crate::threads::schedule;
use crate::threads::wait::block_until;

/// Size of the thread's stack in bytes.
const STACK_SIZE: usize = 256 << 10;

/// Number of consecutive polls after which the thread pauses. So a flood of frames does not keep programs
/// from running: the device drops frames that arrive faster than they are handled.
const MAX_ROUNDS: u32 = 16;

/// Length of the pause in nanoseconds.
const PAUSE: u64 = 1_000_000;

/// Wait queue of the thread.
static WAITER: WaitQueue = WaitQueue::new();

/// Time of the thread's next poll in nanoseconds of the monotonic clock, unless another thread calls the
/// stack before. `u64::MAX` while the thread is polling, and while no timer of the stack runs.
static WAKES: AtomicU64 = AtomicU64::new(u64::MAX);

/// True if the thread has been woken since its last poll began.
static CALLED: AtomicBool = AtomicBool::new(false);

/// Starts the thread.
pub(super) fn start() -> Result<(), Errno> {
    // The priority is high, so that a program that computes does not delay the handling of received frames.
    let priority = HIGH_PRIO.into();
    let args = SpawnArgs { function: (run, 0), priority, stack_size: STACK_SIZE, cpu: None };
    // `spawn` fails with `EAGAIN`, which the caller would take as a reason to wait, so it is replaced by
    // `ENOMEM`.
    lifecycle::spawn(&args).map(drop).map_err(|_| Errno::ENOMEM)
}

/// Wakes the thread, so that it polls the stack.
pub(super) fn call() {
    CALLED.store(true, Release);
    WAITER.wake();
}

/// Makes the thread poll the stack no later than `deadline`, in nanoseconds of the monotonic clock.
pub(super) fn poll_by(deadline: u64) {
    if deadline < WAKES.load(Acquire) {
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
        if next <= clock::monotonic() || rx_interrupt::enable() {
            rounds += 1;
            if rounds == MAX_ROUNDS {
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
        // While the thread polls, interrupts are not needed.
        rx_interrupt::disable();
    }
}
