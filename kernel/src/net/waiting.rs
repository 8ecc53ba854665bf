//! Blocking calls: retries a call of the stack until it succeeds.
//!
//! The stack wakes waiters only while it is locked. So a thread misses no wake-up if it tries the call and
//! adds itself to the waiters without unlocking the stack in between.

use core::mem;
use core::task::{Context, Poll};

use hermit_interface::Errno;

use super::stack::{Network, Stack};
use super::{act, poll_leader};
use crate::sync::WaitQueue;
use crate::threads::{deferred_block, schedule, wait};

/// Maximum number of retries before the thread yields and checks its timeout. Without this limit, it could
/// retry endlessly while frames for other sockets keep the device busy.
const MAX_ROUNDS: u32 = 16;

/// Calls the stack, and blocks while the call fails with `EAGAIN`. At the deadline (in nanoseconds), returns
/// `EAGAIN`. If the first try succeeds, the device is not polled.
///
/// A thread that stops waiting tries the call once more, so that a wake-up of an exclusive waiter is not
/// lost.
pub(super) fn wait_until<R>(
    network: &Network,
    waiters: &WaitQueue,
    deadline: Option<u64>,
    mut action: impl FnMut(&mut Stack) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let mut attempt = Attempt::First;
    let waited =
        wait::block_until(deadline, |context| poll(network, waiters, context, &mut attempt, &mut action));
    if attempt != Attempt::First {
        poll_leader::resign();
    }
    waited.unwrap_or_else(|| {
        let context = Context::from_waker(schedule::current().waker());
        try_or_wait(network, waiters, &context, &mut Attempt::Last, &mut action)
    })
}

/// Blocks until `poll` is ready. Returns `None` if it is not ready at the deadline (in nanoseconds). `poll`
/// may wait for sockets: while the thread waits, it is the poll leader, so it polls the stack after an
/// interrupt of the device.
pub(crate) fn block_until<R>(
    deadline: Option<u64>,
    poll: impl FnMut(&mut Context<'_>) -> Poll<R>,
) -> Option<R> {
    let mut leading = Leading::new(poll);
    wait::block_until(deadline, |context| leading.poll(context))
}

/// Does [`block_until`] for a `poll` of several objects. Some objects may sleep while they are polled
/// ([`wait::block_until_any`]).
pub(crate) fn block_until_any<R>(
    deadline: Option<u64>,
    poll: impl FnMut(&mut Context<'_>) -> Poll<R>,
) -> Option<R> {
    let mut leading = Leading::new(poll);
    wait::block_until_any(deadline, |context| leading.poll(context))
}

/// Wraps a poll. While the poll is pending, its thread is the poll leader.
struct Leading<F> {
    poll: F,
    /// True if the thread has become the poll leader. Then it must resign at the end.
    has_led: bool,
}

impl<F> Leading<F> {
    const fn new(poll: F) -> Self {
        Self { poll, has_led: false }
    }

    /// Polls the stack if there is a reason to, and then calls the wrapped poll.
    fn poll<R>(&mut self, context: &mut Context<'_>) -> Poll<R>
    where
        F: FnMut(&mut Context<'_>) -> Poll<R>,
    {
        let mut polls_stack = poll_leader::must_poll();
        poll_and_lead(context, |context| {
            // A further round begins only if the device has received frames.
            if mem::replace(&mut polls_stack, true) {
                super::poll_received();
            }
            let polled = (self.poll)(context);
            self.has_led |= polled.is_pending();
            polled
        })
    }
}

impl<F> Drop for Leading<F> {
    fn drop(&mut self) {
        if self.has_led {
            poll_leader::resign();
        }
    }
}

/// Calls the wrapped poll. If it is pending, makes the thread the poll leader, and calls it again if the
/// stack must be polled.
#[inline]
fn poll_and_lead<R>(context: &mut Context<'_>, mut poll: impl FnMut(&mut Context<'_>) -> Poll<R>) -> Poll<R> {
    for _ in 0..MAX_ROUNDS {
        let polled = poll(context);
        if polled.is_ready() || !poll_leader::lead(context) {
            return polled;
        }
    }
    deferred_block::yield_now();
    // Too many rounds: the task polls again at once, but other threads can run in between.
    context.waker().wake_by_ref();
    Poll::Pending
}

/// Attempt of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// The first attempt: the thread is not among the waiters, and is not the poll leader.
    First,
    /// A retry: the thread may have been woken.
    Repeated,
    /// The last attempt: the deadline has passed.
    Last,
}

fn poll<R>(
    network: &Network,
    waiters: &WaitQueue,
    context: &mut Context<'_>,
    attempt: &mut Attempt,
    action: &mut impl FnMut(&mut Stack) -> Result<R, Errno>,
) -> Poll<Result<R, Errno>> {
    poll_and_lead(context, |context| match try_or_wait(network, waiters, context, attempt, action) {
        Err(Errno::EAGAIN) => Poll::Pending,
        result => Poll::Ready(result),
    })
}

/// Locks the stack, calls it, and adds the thread to the waiters if the call fails with `EAGAIN`. Polls the
/// stack only if the call fails, because the thread that woke this one has already polled.
fn try_or_wait<R>(
    network: &Network,
    waiters: &WaitQueue,
    context: &Context<'_>,
    attempt: &mut Attempt,
    action: &mut impl FnMut(&mut Stack) -> Result<R, Errno>,
) -> Result<R, Errno> {
    act(network, |stack| {
        if *attempt != Attempt::First {
            waiters.remove(context);
        }
        let mut is_polled = false;
        loop {
            // `action` is called at only one place, so that the compiler inlines it.
            let result = action(stack);
            if !matches!(result, Err(Errno::EAGAIN)) {
                return result;
            }
            if is_polled && *attempt != Attempt::Last {
                *attempt = Attempt::Repeated;
                waiters.add(context);
            }
            if is_polled {
                return result;
            }
            is_polled = true;
            super::poll(stack);
        }
    })
}

/// Removes the thread from the waiters, then polls, then calls the stack. In this order, events that the poll
/// finds do not wake the thread without need.
pub(super) fn poll_and<R>(
    network: &Network,
    waiters: &WaitQueue,
    context: &Context<'_>,
    action: impl FnOnce(&mut Stack) -> R,
) -> R {
    act(network, |stack| {
        waiters.remove(context);
        super::poll(stack);
        action(stack)
    })
}
