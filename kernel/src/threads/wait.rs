//! Sleeping until a poll is ready.

use core::pin::pin;
use core::task::{Context, Poll};

use hermit_hal::clock;
use hermit_sched::thread::Thread as _;

use super::schedule;
use super::thread::Thread;

/// Polls repeatedly and sleeps between the polls, until the poll is ready. Returns `None` if it is not ready
/// at `deadline`, a time of the monotonic clock.
pub(crate) fn block_until<T>(
    deadline: Option<u64>,
    poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    block(schedule::current(), deadline, poll)
}

/// Does [`block_until`] for a poll of several objects. Some objects may sleep while they are polled. If an
/// object that was polled earlier wakes the thread during such a sleep, the wake-up is not lost.
#[inline]
pub(crate) fn block_until_any<T>(
    deadline: Option<u64>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let thread = schedule::current();
    block(thread, deadline, |context| thread.entity().poll_several(|| poll(context)))
}

#[inline]
fn block<T>(
    thread: &'static Thread,
    deadline: Option<u64>,
    mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
) -> Option<T> {
    let mut context = Context::from_waker(thread.waker());
    loop {
        if let Poll::Ready(result) = poll(&mut context) {
            return Some(result);
        }
        // The deadline is checked after the poll, so an object that is ready when the deadline passes counts
        // as ready.
        if deadline.is_some_and(|deadline| deadline <= clock::monotonic()) {
            return None;
        }
        schedule::wait(deadline);
    }
}

/// Polls repeatedly and sleeps between the polls, until the poll is ready.
pub(crate) fn block_on<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> T {
    loop {
        if let Some(result) = block_until(None, &mut poll) {
            return result;
        }
    }
}

/// Sleeps until a future is complete.
pub(crate) fn complete<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    block_on(|context| future.as_mut().poll(context))
}
