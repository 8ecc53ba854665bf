//! An array of thread lists with a bitmap of the lists that are not empty, as in Linux's O(1) scheduler.

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

    /// Removes and returns the first thread of a list.
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

    /// Adds a thread at the end of a list that is not empty. Removes and returns the list's first thread.
    #[inline]
    pub fn rotate(&mut self, index: usize, thread: &'static T) -> &'static T {
        self.lists[index % N].rotate(thread)
    }

    /// Removes a thread that is in the list `index`.
    pub fn remove(&mut self, index: usize, thread: &'static T) {
        let Some(list) = self.lists.get_mut(index) else { return };
        list.remove(thread);
        if list.is_empty() {
            self.used &= !(1 << index);
        }
    }

    /// The first thread of a list, without removing it.
    #[must_use]
    pub fn head(&self, index: usize) -> Option<&'static T> {
        self.lists[index % N].first()
    }

    /// Moves all threads of the list `from` to the list `to`, which must be empty, in constant time.
    pub fn move_list(&mut self, from: usize, to: usize) {
        let (from, to) = (from % N, to % N);
        if self.used & 1 << from != 0 {
            self.lists[to] = core::mem::take(&mut self.lists[from]);
            self.used = self.used & !(1 << from) | 1 << to;
        }
    }

    /// Bitmap of the lists that are not empty.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used
    }

    /// All threads, list by list, with the indices of their lists.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &'static T)> {
        let lists = self.lists.iter().enumerate();
        lists.flat_map(|(index, list)| list.iter().map(move |thread| (index, thread)))
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
        queues.remove(63, all[2]);
        assert_eq!(queues.first(61), Some(5));
        assert_eq!(queues.pop(60).map(|thread| thread.number), Some(1));
        assert_eq!(queues.pop(60).map(|thread| thread.number), None);
        assert_eq!(queues.iter().count(), 1);
    }
}
