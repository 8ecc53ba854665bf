//! Round-robin within each priority, as `SCHED_RR`, with a guard against starvation: every 16th slice goes to
//! another priority.

use super::Policy;
use super::fifo::{Fifo, LISTS};
use crate::thread::Thread;

/// Number of slices after which a slice goes to the next priority that has a ready thread, in cyclic order.
const ANTI_STARVATION_PERIOD: u32 = 16;

/// The round-robin policy: [`Fifo`] with time slices.
#[derive(Debug)]
pub struct RoundRobin<T: 'static> {
    pub(super) order: Fifo<T>,
    /// Number of slices that have ended.
    slices: u32,
    /// Index of the list that got the last anti-starvation slice.
    pub(super) favoured: usize,
}

impl<T> Default for RoundRobin<T> {
    fn default() -> Self {
        Self { order: Fifo::default(), slices: 0, favoured: 0 }
    }
}

impl<T: Thread> RoundRobin<T> {
    /// Counts a slice that has ended. If the next slice goes to another priority, returns the list of that
    /// priority.
    pub(super) fn list_against_starvation(&mut self) -> Option<usize> {
        self.slices = self.slices.wrapping_add(1);
        let is_due = self.slices.is_multiple_of(ANTI_STARVATION_PERIOD);
        self.favoured = self.order.queues.first((self.favoured + 1) % LISTS).filter(|_| is_due)?;
        Some(self.favoured)
    }
}

impl<T: Thread> Policy<T> for RoundRobin<T> {
    const SLICE: Option<u64> = Some(10_000_000);

    #[inline]
    fn enqueue(&mut self, thread: &'static T) {
        self.order.enqueue(thread);
    }

    #[inline]
    fn requeue(&mut self, thread: &'static T) {
        self.order.requeue(thread);
    }

    #[inline]
    fn pick_next(&mut self) -> Option<&'static T> {
        self.order.pick_next()
    }

    #[inline]
    fn pick_on_yield(&mut self, current: &'static T) -> Option<&'static T> {
        self.order.pick_on_yield(current)
    }

    #[inline]
    fn yield_to_equal(&mut self, current: &'static T) -> Option<&'static T> {
        self.order.yield_to_equal(current)
    }

    fn pick_after_slice(&mut self, current: &'static T) -> Option<&'static T> {
        match self.list_against_starvation() {
            Some(list) => self.order.queues.pop(list),
            None => self.order.pick_on_yield(current),
        }
    }

    fn pick_preempting(&mut self, current: &'static T) -> Option<&'static T> {
        self.order.pick_preempting(current)
    }

    #[inline]
    fn preempts(&self, woken: &'static T, current: &'static T) -> bool {
        self.order.preempts(woken, current)
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &'static T)> {
        self.order.iter()
    }

    fn dequeue(&mut self, list: usize, thread: &'static T) {
        self.order.dequeue(list, thread);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{ANTI_STARVATION_PERIOD, RoundRobin};
    use crate::policy::Policy;
    use crate::testing::{TestThread, threads};

    #[test]
    fn busy_threads_of_high_priority_do_not_starve_lower_ones() {
        let all = threads(4);
        all[0].entity.set_priority(5);
        all[1].entity.set_priority(5);
        all[2].entity.set_priority(3);
        let mut policy = RoundRobin::<TestThread>::default();
        let mut ran = [0; 4];
        let mut current = all[0];
        policy.enqueue(all[1]);
        policy.enqueue(all[2]);
        policy.enqueue(all[3]);
        for _ in 0..ANTI_STARVATION_PERIOD * 100 {
            ran[current.number] += 1;
            if let Some(next) = policy.pick_after_slice(current) {
                policy.requeue(current);
                current = next;
            }
        }
        let [one, other, lower, lowest] = ran;
        assert!(lower >= 30 && lowest >= 30 && one > 5 * lower && other > 5 * lowest, "{ran:?}");
    }
}
