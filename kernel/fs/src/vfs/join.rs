//! Polls several futures at the same time, without allocating memory.

use core::ops::Range;
use core::pin::pin;
use core::task::{Context, Poll};

/// Function that polls all futures of a group until each of them is ready.
type PollAll<'a> = dyn FnMut(&mut Context<'_>) -> Poll<()> + 'a;

/// Creates the futures `make(0)` to `make(count - 1)` on the stack, and calls `wait` with a function that
/// polls them. This function returns `Ready` when all futures are ready. A future that stays pending does not
/// delay the others.
pub fn join_each<F: Future<Output = ()>>(
    count: usize,
    make: &dyn Fn(usize) -> F,
    wait: &mut dyn FnMut(&mut PollAll<'_>),
) {
    join(0..count, make, &mut |_| Poll::Ready(()), wait);
}

/// Creates the future of each number in `numbers`, one per level of recursion, and joins them with the
/// futures that `others` polls.
fn join<F: Future<Output = ()>>(
    mut numbers: Range<usize>,
    make: &dyn Fn(usize) -> F,
    others: &mut PollAll<'_>,
    wait: &mut dyn FnMut(&mut PollAll<'_>),
) {
    let Some(number) = numbers.next() else { return wait(others) };
    let mut future = pin!(make(number));
    let mut is_ready = false;
    let mut poll = |context: &mut Context<'_>| {
        is_ready = is_ready || future.as_mut().poll(context).is_ready();
        let others = others(context);
        if is_ready { others } else { Poll::Pending }
    };
    join(numbers, make, &mut poll, wait);
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::join_each;
    use core::cell::RefCell;
    use core::future::poll_fn;
    use core::task::{Context, Poll, Waker};
    use std::vec::Vec;

    /// Returns `Pending` from this number of polls.
    async fn pend(polls: usize) {
        let mut left = polls + 1;
        poll_fn(|_| {
            left -= 1;
            if left > 0 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
    }

    /// For each future, the number of its polls that return `Pending`.
    const POLLS: [usize; 4] = [0, 10, 2, 3];

    #[test]
    fn future_that_stays_pending_does_not_delay_the_others() {
        let done = RefCell::new(Vec::new());
        let make = |number: usize| {
            let done = &done;
            async move {
                pend(POLLS[number]).await;
                done.borrow_mut().push(number);
            }
        };
        let mut context = Context::from_waker(Waker::noop());
        let mut rounds = Vec::new();
        join_each(4, &make, &mut |poll| {
            while poll(&mut context).is_pending() {
                rounds.push(done.borrow().len());
            }
        });
        assert_eq!(rounds, [1, 1, 2, 3, 3, 3, 3, 3, 3, 3]);
        assert_eq!(done.borrow()[..], [0, 2, 3, 1]);
        join_each(0, &make, &mut |poll| assert!(poll(&mut context).is_ready()));
    }
}
