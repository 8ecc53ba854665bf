//! Waiting.

use core::task::{Context, Poll, Waker};

use hermit_hal::{clock, interrupts};

/// Polls until there is a result. An interrupt arrives for whatever can make a difference.
pub(crate) fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(result) = poll(&mut context) {
            return result;
        }
        interrupts::wait();
    }
}

/// Waits until `ready` says so or until a moment of the monotonic clock; `None` waits for ever. Returns whether
/// it was ready.
pub(crate) fn wait_until(deadline: Option<u64>, mut ready: impl FnMut() -> bool) -> bool {
    while !ready() {
        match deadline {
            Some(deadline) if clock::monotonic() >= deadline => return false,
            Some(deadline) => clock::wait_until(deadline),
            None => interrupts::wait(),
        }
    }
    true
}
