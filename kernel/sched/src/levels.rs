//! An array of lists, with a bitmap that says which of them are not empty.

use core::sync::atomic::Ordering::Relaxed;

use crate::list::{List, Ready};
use crate::thread::Thread;

/// Lists of ready threads, `N` of them, at most 64.
#[derive(Debug)]
pub struct Levels<T: 'static, const N: usize> {
    used: u64,
    lists: [List<T, Ready>; N],
}

impl<T, const N: usize> Default for Levels<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> Levels<T, N> {
    /// No threads.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N.is_power_of_two() && N <= 64, "the bitmap has 64 bits") };
        Self { used: 0, lists: [const { List::new() }; N] }
    }
}

impl<T: Thread, const N: usize> Levels<T, N> {
    /// Adds a thread at the end of a level, of which there are `N`: higher numbers start again.
    #[inline]
    pub fn push(&mut self, thread: &'static T, level: usize) {
        let level = level % N;
        thread.entity().level.store(level.to_le_bytes()[0], Relaxed);
        self.lists[level].push(thread);
        self.used |= 1 << level;
    }

    /// The first level that has threads, counted from `start` on and around the end.
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

    /// Takes the first thread of a level.
    #[inline]
    pub fn pop(&mut self, level: usize) -> Option<&'static T> {
        let level = level % N;
        let list = &mut self.lists[level];
        let thread = list.pop();
        if list.is_empty() {
            self.used &= !(1 << level);
        }
        thread
    }

    /// Adds a thread at the end of a level that is not empty, and takes the first one.
    #[inline]
    pub fn rotate(&mut self, level: usize, thread: &'static T) -> &'static T {
        let level = level % N;
        thread.entity().level.store(level.to_le_bytes()[0], Relaxed);
        self.lists[level].rotate(thread)
    }

    /// Takes a thread from wherever it is.
    pub fn remove(&mut self, thread: &'static T) {
        let level = usize::from(thread.entity().level.load(Relaxed));
        let Some(list) = self.lists.get_mut(level) else { return };
        list.remove(thread);
        if list.is_empty() {
            self.used &= !(1 << level);
        }
    }

    /// All threads, level by level.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> {
        self.lists.iter().flat_map(List::iter)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Levels;
    use crate::testing::{Simple, threads};

    #[test]
    fn the_search_goes_around_the_end() {
        let all = threads(3);
        let mut levels = Levels::<Simple, 64>::new();
        assert_eq!(levels.first(0), None);
        for (thread, level) in all.iter().zip([5, 60, 127]) {
            levels.push(thread, level);
        }
        assert_eq!([0, 5, 6, 60, 61, 63].map(|start| levels.first(start)), [5, 5, 60, 60, 63, 63].map(Some));
        levels.remove(all[2]);
        assert_eq!(levels.first(61), Some(5));
        assert_eq!(levels.pop(60).map(|thread| thread.number), Some(1));
        assert_eq!(levels.pop(60).map(|thread| thread.number), None);
        assert_eq!(levels.iter().count(), 1);
    }
}
