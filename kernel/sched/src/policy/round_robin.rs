//! Equals take turns; and so that nobody starves, now and then a thread of lower priority has one.

use super::{Fifo, Policy};
use crate::thread::Thread;

/// Of so many slices that are over, one goes to the lowest priority that is ready.
const LOWEST_EVERY: u32 = 16;

/// [`Fifo`] with time slices.
#[derive(Debug)]
pub struct RoundRobin<T: 'static> {
    order: Fifo<T>,
    slices: u32,
}

impl<T> Default for RoundRobin<T> {
    fn default() -> Self {
        Self { order: Fifo::default(), slices: 0 }
    }
}

impl<T: Thread> Policy<T> for RoundRobin<T> {
    const SLICE: Option<u64> = Some(10_000_000);

    #[inline]
    fn add(&mut self, thread: &'static T) {
        self.order.add(thread);
    }

    #[inline]
    fn put_back(&mut self, thread: &'static T) {
        self.order.put_back(thread);
    }

    #[inline]
    fn next(&mut self) -> Option<&'static T> {
        self.order.next()
    }

    #[inline]
    fn instead_of(&mut self, current: &'static T) -> Option<&'static T> {
        self.order.instead_of(current)
    }

    #[inline]
    fn exchange(&mut self, current: &'static T) -> Option<&'static T> {
        self.order.exchange(current)
    }

    fn after_slice(&mut self, current: &'static T) -> Option<&'static T> {
        self.slices = self.slices.wrapping_add(1);
        let lowest = self.slices.is_multiple_of(LOWEST_EVERY);
        if lowest { self.order.last() } else { self.order.instead_of(current) }
    }

    #[inline]
    fn preempts(&self, woken: &'static T, current: &'static T) -> bool {
        self.order.preempts(woken, current)
    }

    fn iter(&self) -> impl Iterator<Item = &'static T> {
        self.order.iter()
    }

    fn remove(&mut self, thread: &'static T) {
        self.order.remove(thread);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{LOWEST_EVERY, RoundRobin};
    use crate::policy::Policy;
    use crate::testing::{Simple, threads};

    #[test]
    fn a_busy_thread_of_high_priority_starves_nobody() {
        let all = threads(3);
        all[0].entity.set_priority(2);
        all[1].entity.set_priority(2);
        let mut policy = RoundRobin::<Simple>::default();
        let mut ran = [0; 3];
        let mut current = all[0];
        policy.add(all[1]);
        policy.add(all[2]);
        for _ in 0..LOWEST_EVERY * 100 {
            ran[current.number] += 1;
            if let Some(next) = policy.after_slice(current) {
                policy.put_back(current);
                current = next;
            }
        }
        assert!(ran[2] >= 99 && ran[0] > 5 * ran[2] && ran[1] > 5 * ran[2], "{ran:?}");
    }
}
