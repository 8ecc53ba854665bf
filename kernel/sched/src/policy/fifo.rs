//! First in, first out, by priority, as `SCHED_FIFO`: a thread runs until it blocks, yields, or a thread of
//! higher priority is ready.

use super::Policy;
use crate::queue_array::QueueArray;
use crate::thread::{MAX_PRIORITY, NORMAL_LISTS, Thread};

/// Number of lists: at least one for each rank; a power of two.
pub(super) const LISTS: usize = 64;
const _: () = assert!(LISTS > MAX_PRIORITY as usize + NORMAL_LISTS as usize, "each rank has a list");

/// The FIFO policy: a list for each priority, the highest first.
#[derive(Debug)]
pub struct Fifo<T: 'static> {
    pub(super) queues: QueueArray<T, LISTS>,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { queues: QueueArray::new() }
    }
}

/// Index of the list of a thread's priority.
fn index<T: Thread>(thread: &'static T) -> usize {
    thread.entity().rank()
}

impl<T: Thread> Policy<T> for Fifo<T> {
    const SLICE: Option<u64> = None;

    #[inline]
    fn enqueue(&mut self, thread: &'static T) {
        self.queues.push(thread, index(thread));
    }

    #[inline]
    fn requeue(&mut self, thread: &'static T) {
        self.enqueue(thread);
    }

    #[inline]
    fn pick_next(&mut self) -> Option<&'static T> {
        let first = self.queues.first_used();
        if first < LISTS { self.queues.pop(first) } else { None }
    }

    #[inline]
    fn pick_on_yield(&mut self, current: &'static T) -> Option<&'static T> {
        let first = self.queues.first(0).filter(|&first| first <= index(current))?;
        self.queues.pop(first)
    }

    #[inline]
    fn yield_to_equal(&mut self, current: &'static T) -> Option<&'static T> {
        let own = index(current);
        (self.queues.first_used() == own).then(|| self.queues.rotate(own, current))
    }

    fn pick_preempting(&mut self, current: &'static T) -> Option<&'static T> {
        let first = self.queues.first(0).filter(|&first| first < index(current))?;
        self.queues.pop(first)
    }

    #[inline]
    fn preempts(&self, woken: &'static T, current: &'static T) -> bool {
        index(woken) < index(current)
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &'static T)> {
        self.queues.iter()
    }

    fn dequeue(&mut self, list: usize, thread: &'static T) {
        self.queues.remove(list, thread);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Fifo;
    use crate::policy::Policy;
    use crate::testing::{TestThread, threads};

    #[test]
    fn pick_next_orders_by_priority_then_arrival() {
        let all = threads(4);
        let mut fifo = Fifo::<TestThread>::default();
        all[2].entity.set_priority(3);
        for thread in &all {
            fifo.enqueue(thread);
        }
        let order = core::array::from_fn(|_| fifo.pick_next().map(|thread| thread.number));
        assert_eq!(order, [Some(2), Some(0), Some(1), Some(3), None]);
    }

    #[test]
    fn yield_picks_threads_of_equal_or_higher_priority() {
        let all = threads(3);
        all[1].entity.set_priority(1);
        all[2].entity.set_priority(2);
        let mut fifo = Fifo::<TestThread>::default();
        fifo.enqueue(all[0]);
        assert!(fifo.pick_on_yield(all[1]).is_none());
        fifo.enqueue(all[2]);
        assert_eq!(fifo.pick_on_yield(all[1]).map(|thread| thread.number), Some(2));
        assert!(fifo.preempts(all[2], all[1]) && !fifo.preempts(all[1], all[1]));
    }
}
