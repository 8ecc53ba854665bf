//! An array of thread lists with a bitmap of the lists that are not empty, as in Linux's O(1) scheduler.

use core::sync::atomic::Ordering::Relaxed;

use crate::list::{List, Ready};
use crate::thread::Thread;

/// `N` lists of ready threads; `N` is a power of two of at most 64.
#[derive(Debug)]
pub struct QueueArray<T: 'static, const N: usize> {
    /// A bit per list: set if the list is not empty.
    used: u64,
    lists: [List<T, Ready>; N],
}

impl<T, const N: usize> Default for QueueArray<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> QueueArray<T, N> {
    /// Creates an array of empty lists.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two() && N <= 64, "the bitmap has 64 bits") };
        Self { used: 0, lists: [const { List::new() }; N] }
    }
}

impl<T: Thread, const N: usize> QueueArray<T, N> {
    /// Adds a thread at the end of the list `index` modulo `N`.
    #[inline]
    pub fn push(&mut self, thread: &'static T, index: usize) {
        let index = index % N;
        thread.entity().queue_index.store(index.to_le_bytes()[0], Relaxed);
        self.lists[index].push(thread);
        self.used |= 1 << index;
    }

    /// Index of the first list that is not empty, searched cyclically from `start` on.
    #[inline]
    #[must_use]
    pub fn first(&self, start: usize) -> Option<usize> {
        if self.used == 0 {
            return None;
        }
        let from_start = self.used >> start << start;
        let bits = if from_start == 0 { self.used } else { from_start };
        Some(bits.trailing_zeros() as usize)
    }

    /// Index of the first list that is not empty; 64 if there is none.
    #[inline]
    #[must_use]
    pub const fn first_used(&self) -> usize {
        self.used.trailing_zeros() as usize
    }

    /// Takes the first thread of a list.
    #[inline]
    pub fn pop(&mut self, index: usize) -> Option<&'static T> {
        let index = index % N;
        let list = &mut self.lists[index];
        let thread = list.pop();
        if list.is_empty() {
            self.used &= !(1 << index);
        }
        thread
    }

    /// Adds a thread at the end of a list that is not empty, and takes the list's first thread.
    #[inline]
    pub fn rotate(&mut self, index: usize, thread: &'static T) -> &'static T {
        let index = index % N;
        thread.entity().queue_index.store(index.to_le_bytes()[0], Relaxed);
        self.lists[index].rotate(thread)
    }

    /// Removes a thread from the list that it is in.
    pub fn remove(&mut self, thread: &'static T) {
        let index = usize::from(thread.entity().queue_index.load(Relaxed));
        let Some(list) = self.lists.get_mut(index) else { return };
        list.remove(thread);
        if list.is_empty() {
            self.used &= !(1 << index);
        }
    }

    /// All threads, list by list.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> {
        self.lists.iter().flat_map(List::iter)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::QueueArray;
    use crate::testing::{TestThread, threads};

    #[test]
    fn first_searches_cyclically() {
        let all = threads(3);
        let mut queues = QueueArray::<TestThread, 64>::new();
        assert_eq!(queues.first(0), None);
        for (thread, index) in all.iter().zip([5, 60, 127]) {
            queues.push(thread, index);
        }
        assert_eq!([0, 5, 6, 60, 61, 63].map(|start| queues.first(start)), [5, 5, 60, 60, 63, 63].map(Some));
        queues.remove(all[2]);
        assert_eq!(queues.first(61), Some(5));
        assert_eq!(queues.pop(60).map(|thread| thread.number), Some(1));
        assert_eq!(queues.pop(60).map(|thread| thread.number), None);
        assert_eq!(queues.iter().count(), 1);
    }
}
