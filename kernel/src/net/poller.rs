//! The thread that drives the stack when nobody else does.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};
use core::sync::atomic::{AtomicBool, AtomicU64};
use core::task::Poll;

use hermit_abi::NORMAL_PRIO;
use hermit_hal::clock;
use hermit_interface::Errno;
use hermit_io::Waiters as _;

use super::{NETWORK, poll};
use crate::devices;
use crate::threads::life::{self, Wanted};
use crate::threads::wait::block_until;
use crate::waiters::Waiters;

/// The stack of the thread: frames are handled on it.
const STACK_SIZE: usize = 256 << 10;

/// The thread, when it waits.
static WAITER: Waiters = Waiters::new();

/// The moment at which the thread will be there by itself; while it does not know, whoever knows one calls it.
static WAKES: AtomicU64 = AtomicU64::new(u64::MAX);

/// Whether it has been called since it looked last.
static CALLED: AtomicBool = AtomicBool::new(false);

/// Starts it.
pub(super) fn start() -> Result<(), Errno> {
    let priority = NORMAL_PRIO.into();
    life::spawn(&Wanted { function: (run, 0), priority, stack_size: STACK_SIZE, cpu: None }).map(drop)
}

/// The device has something.
pub(crate) fn device_interrupt() {
    call();
}

fn call() {
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
    loop {
        WAKES.store(u64::MAX, Release);
        let next = network.with(poll);
        WAKES.store(next, Release);
        if next <= clock::monotonic() || has_more() {
            continue;
        }
        let deadline = (next != u64::MAX).then_some(next);
        block_until(deadline, |context| {
            WAITER.add(context);
            if CALLED.swap(false, AcqRel) { Poll::Ready(()) } else { Poll::Pending }
        });
        // Until everything has been taken, the device need not interrupt.
        if let Some(device) = devices::network() {
            device.receive_interrupts(false);
        }
    }
}

/// Has the device interrupt when something arrives; whether something has arrived before.
fn has_more() -> bool {
    devices::network().is_some_and(|device| device.receive_interrupts(true))
}
