//! Waiting until the stack has what is wanted of it.
//!
//! Only who has the turn with the stack wakes anybody. So whoever looks, and says in the same turn that it waits, misses nothing.

use core::task::{Context, Poll};

use hermit_interface::Errno;
use hermit_io::WaitQueue as _;

use super::stack::{Network, Stack};
use super::{act, leader};
use crate::sync::WaitQueue;
use crate::threads::wait::block_until;
use crate::threads::{deferred_block, schedule};

/// After so many rounds without an end others have their turn, and time limits are looked at: what arrives may keep the device
/// from ever having nothing, though nothing of it is for who waits.
const MOST_ROUNDS: u32 = 16;

/// Does something as soon as the stack does not say `EAGAIN`, which it still does if that takes too long. If it can be done
/// at once, the device is not polled.
///
/// Nobody who is among the waiters leaves without having looked once more, so that a wake-up meant for one of them is not lost.
pub(super) fn wait_until<R>(
    network: &Network,
    waiters: &WaitQueue,
    deadline: Option<u64>,
    mut action: impl FnMut(&mut Stack) -> Result<R, Errno>,
) -> Result<R, Errno> {
    let mut attempt = Attempt::First;
    let waited = block_until(deadline, |context| poll(network, waiters, context, &mut attempt, &mut action));
    if attempt != Attempt::First {
        leader::resign();
    }
    waited.unwrap_or_else(|| {
        let context = Context::from_waker(schedule::current().waker());
        try_or_wait(network, waiters, &context, &mut Attempt::Last, &mut action)
    })
}

/// Which attempt of a call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attempt {
    /// None has had to wait: the thread is not among the waiters, and not the leader.
    First,
    /// The thread may have been woken.
    Repeated,
    /// The time is up.
    Last,
}

fn poll<R>(
    network: &Network,
    waiters: &WaitQueue,
    context: &mut Context<'_>,
    attempt: &mut Attempt,
    action: &mut impl FnMut(&mut Stack) -> Result<R, Errno>,
) -> Poll<Result<R, Errno>> {
    for _ in 0..MOST_ROUNDS {
        match try_or_wait(network, waiters, context, attempt, action) {
            Err(Errno::EAGAIN) if leader::lead(context) => {}
            Err(Errno::EAGAIN) => return Poll::Pending,
            result => return Poll::Ready(result),
        }
    }
    deferred_block::yield_now();
    // It is to be tried again at once.
    context.waker().wake_by_ref();
    Poll::Pending
}

/// Does something, or adds the thread to the waiters. The device is polled only if that is needed: a thread that has been woken
/// finds what the thread that woke it has received. With the stack locked once.
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
            // The only call, so that it is compiled in place.
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

/// Takes a thread from those who wait, looks at what has arrived, and does something: what the thread finds itself need not wake it.
pub(super) fn look<R>(
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
