//! First in, first out, by priority: a thread runs until it waits or yields, or one of higher priority is ready.

use super::Policy;
use crate::levels::Levels;
use crate::thread::{MAX_PRIORITY, Thread};

/// A level for each priority; a power of two.
const LEVELS: usize = 32;
const _: () = assert!(LEVELS > MAX_PRIORITY as usize, "each priority has a level");

/// A list for each priority, the highest first.
#[derive(Debug)]
pub struct Fifo<T: 'static> {
    levels: Levels<T, LEVELS>,
}

impl<T> Default for Fifo<T> {
    fn default() -> Self {
        Self { levels: Levels::new() }
    }
}

fn level<T: Thread>(thread: &'static T) -> usize {
    thread.entity().rank()
}

impl<T: Thread> Fifo<T> {
    /// Takes a thread of the first level after this one that has some, around the end, and says which level that is.
    pub(super) fn after(&mut self, level: usize) -> Option<(usize, &'static T)> {
        let level = self.levels.first((level + 1) % LEVELS)?;
        Some((level, self.levels.pop(level)?))
    }
}

impl<T: Thread> Policy<T> for Fifo<T> {
    const SLICE: Option<u64> = None;

    #[inline]
    fn add(&mut self, thread: &'static T) {
        self.levels.push(thread, level(thread));
    }

    #[inline]
    fn put_back(&mut self, thread: &'static T) {
        self.add(thread);
    }

    #[inline]
    fn next(&mut self) -> Option<&'static T> {
        let level = self.levels.first(0)?;
        self.levels.pop(level)
    }

    #[inline]
    fn instead_of(&mut self, current: &'static T) -> Option<&'static T> {
        let first = self.levels.first(0).filter(|&first| first <= level(current))?;
        self.levels.pop(first)
    }

    #[inline]
    fn exchange(&mut self, current: &'static T) -> Option<&'static T> {
        let level = level(current);
        match self.levels.first(0) {
            Some(first) if first == level => Some(self.levels.rotate(level, current)),
            Some(first) if first < level => {
                let next = self.levels.pop(first);
                self.add(current);
                next
            }
            _ => None,
        }
    }

    fn better_than(&mut self, current: &'static T) -> Option<&'static T> {
        let first = self.levels.first(0).filter(|&first| first < level(current))?;
        self.levels.pop(first)
    }

    #[inline]
    fn preempts(&self, woken: &'static T, current: &'static T) -> bool {
        level(woken) < level(current)
    }

    fn iter(&self) -> impl Iterator<Item = &'static T> {
        self.levels.iter()
    }

    fn remove(&mut self, thread: &'static T) {
        self.levels.remove(thread);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Fifo;
    use crate::policy::Policy;
    use crate::testing::{Simple, threads};

    #[test]
    fn priority_first_then_order_of_arrival() {
        let all = threads(4);
        let mut fifo = Fifo::<Simple>::default();
        all[2].entity.set_priority(3);
        for thread in &all {
            fifo.add(thread);
        }
        let order = core::array::from_fn(|_| fifo.next().map(|thread| thread.number));
        assert_eq!(order, [Some(2), Some(0), Some(1), Some(3), None]);
    }

    #[test]
    fn who_yields_lets_equals_and_betters_go_first() {
        let all = threads(3);
        all[1].entity.set_priority(1);
        all[2].entity.set_priority(2);
        let mut fifo = Fifo::<Simple>::default();
        fifo.add(all[0]);
        assert!(fifo.instead_of(all[1]).is_none());
        fifo.add(all[2]);
        assert_eq!(fifo.instead_of(all[1]).map(|thread| thread.number), Some(2));
        assert!(fifo.preempts(all[2], all[1]) && !fifo.preempts(all[1], all[1]));
    }
}
