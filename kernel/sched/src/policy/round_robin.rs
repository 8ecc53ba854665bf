//! Equals take turns; and so that nobody starves, now and then each priority has one.

use super::{Fifo, Policy};
use crate::thread::Thread;

/// Of so many slices that are over, one goes to a priority that is ready, one priority after the other.
const ANY_EVERY: u32 = 16;

/// [`Fifo`] with time slices.
#[derive(Debug)]
pub struct RoundRobin<T: 'static> {
    order: Fifo<T>,
    slices: u32,
    /// The level that had such a slice last.
    favoured: usize,
}

impl<T> Default for RoundRobin<T> {
    fn default() -> Self {
        Self { order: Fifo::default(), slices: 0, favoured: 0 }
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
        if !self.slices.is_multiple_of(ANY_EVERY) {
            return self.order.instead_of(current);
        }
        let (level, thread) = self.order.after(self.favoured)?;
        self.favoured = level;
        Some(thread)
    }

    fn better_than(&mut self, current: &'static T) -> Option<&'static T> {
        self.order.better_than(current)
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
    use super::{ANY_EVERY, RoundRobin};
    use crate::policy::Policy;
    use crate::testing::{Simple, threads};

    #[test]
    fn a_busy_thread_of_high_priority_starves_nobody() {
        let all = threads(4);
        all[0].entity.set_priority(5);
        all[1].entity.set_priority(5);
        all[2].entity.set_priority(3);
        let mut policy = RoundRobin::<Simple>::default();
        let mut ran = [0; 4];
        let mut current = all[0];
        policy.add(all[1]);
        policy.add(all[2]);
        policy.add(all[3]);
        for _ in 0..ANY_EVERY * 100 {
            ran[current.number] += 1;
            if let Some(next) = policy.after_slice(current) {
                policy.put_back(current);
                current = next;
            }
        }
        let [one, other, lower, lowest] = ran;
        assert!(lower >= 30 && lowest >= 30 && one > 5 * lower && other > 5 * lowest, "{ran:?}");
    }
}
