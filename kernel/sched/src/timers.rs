//! Timers of sleeping threads: an intrusive pairing heap, whose nodes are fields of the threads.
//!
//! Insertion takes constant time, removal amortised logarithmic time in the number of timers (Fredman, Sedgewick,
//! Sleator, Tarjan: The pairing heap, 1986).

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::list::same;
use crate::thread::{Thread, TimerNode};

/// A heap of threads by deadline.
#[derive(Debug)]
pub struct TimerHeap<T: 'static> {
    root: Option<&'static T>,
}

impl<T> Default for TimerHeap<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> TimerHeap<T> {
    /// Creates an empty heap.
    #[must_use]
    pub const fn new() -> Self {
        Self { root: None }
    }
}

fn timer<T: Thread>(thread: &'static T) -> &'static TimerNode<T> {
    &thread.entity().timer
}

fn deadline<T: Thread>(thread: &'static T) -> u64 {
    timer(thread).deadline.load(Relaxed)
}

/// Whether the timer of a thread is in a heap. Only the thread itself inserts and removes its timer; expiry
/// ([`TimerHeap::pop_due`]) also removes it.
#[inline]
pub fn is_queued<T: Thread>(thread: &'static T) -> bool {
    timer(thread).queued.load(Acquire)
}

/// Melds two heaps: the root with the later deadline becomes the first child of the other root.
fn meld<T: Thread>(one: &'static T, other: &'static T) -> &'static T {
    let (parent, child) = if deadline(other) < deadline(one) { (other, one) } else { (one, other) };
    let first = timer(parent).child.load();
    if let Some(first) = first {
        timer(first).previous.store(Some(child));
    }
    timer(child).next.store(first);
    timer(child).previous.store(Some(parent));
    timer(parent).child.store(Some(child));
    parent
}

/// Detaches the first sibling; returns it and the remaining siblings.
fn detach<T: Thread>(first: &'static T) -> (&'static T, Option<&'static T>) {
    let rest = timer(first).next.load();
    timer(first).next.store(None);
    timer(first).previous.store(None);
    (first, rest)
}

/// Melds siblings into one heap in two passes: pairs from left to right, then all pairs from right to left.
fn meld_siblings<T: Thread>(mut siblings: Option<&'static T>) -> Option<&'static T> {
    // The melded pairs, linked through `next`, the last pair first.
    let mut pairs: Option<&'static T> = None;
    while let Some(sibling) = siblings {
        let (one, rest) = detach(sibling);
        let (pair, rest) = match rest {
            Some(other) => {
                let (other, rest) = detach(other);
                (meld(one, other), rest)
            }
            None => (one, None),
        };
        timer(pair).next.store(pairs);
        pairs = Some(pair);
        siblings = rest;
    }
    let mut heap: Option<&'static T> = None;
    while let Some(pair) = pairs {
        let (one, rest) = detach(pair);
        heap = Some(heap.map_or(one, |heap| meld(heap, one)));
        pairs = rest;
    }
    heap
}

impl<T: Thread> TimerHeap<T> {
    /// Earliest deadline.
    #[inline]
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.root.map(deadline)
    }

    /// Inserts the timer of a thread, which must not be in a heap. Returns whether its deadline is the earliest now.
    pub fn insert(&mut self, thread: &'static T, deadline: u64) -> bool {
        let own = timer(thread);
        own.deadline.store(deadline, Relaxed);
        own.child.store(None);
        own.next.store(None);
        own.previous.store(None);
        own.queued.store(true, Relaxed);
        let root = self.root.map_or(thread, |root| meld(root, thread));
        self.root = Some(root);
        same(root, thread)
    }

    /// Removes the timer of a thread from this heap, unless it has expired or was removed before.
    pub fn remove(&mut self, thread: &'static T) {
        let own = timer(thread);
        if !own.queued.load(Relaxed) {
            return;
        }
        self.unlink(thread);
        // Last of all: as soon as the owner sees this, it may insert the node into another CPU's heap.
        own.queued.store(false, Release);
    }

    /// Takes the node of a thread out of the tree.
    fn unlink(&mut self, thread: &'static T) {
        let own = timer(thread);
        let children = meld_siblings(own.child.load());
        if self.root.is_some_and(|root| same(root, thread)) {
            self.root = children;
            return;
        }
        let next = own.next.load();
        if let Some(previous) = own.previous.load() {
            let first_child = timer(previous).child.load().is_some_and(|child| same(child, thread));
            if first_child { timer(previous).child.store(next) } else { timer(previous).next.store(next) }
        }
        if let Some(next) = next {
            timer(next).previous.store(own.previous.load());
        }
        self.root = match (self.root, children) {
            (Some(root), Some(children)) => Some(meld(root, children)),
            (root, children) => root.or(children),
        };
    }

    /// Removes and returns the thread with the earliest deadline, if that is not later than `now`.
    pub fn pop_due(&mut self, now: u64) -> Option<&'static T> {
        let thread = self.root.filter(|&root| deadline(root) <= now)?;
        self.remove(thread);
        Some(thread)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    extern crate std;

    use super::{TimerHeap, is_queued};
    use crate::testing::{TestThread, threads};
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use std::vec::Vec;

    proptest! {
        #[test]
        fn timer_heap_agrees_with_a_sorted_list(steps in vec((0..3_u8, 0..24_usize, 0..50_u64), 0..200)) {
            let all = threads(24);
            let mut timers = TimerHeap::<TestThread>::new();
            let mut model: Vec<(u64, usize)> = Vec::new();
            for (step, index, time) in steps {
                let queued = model.iter().any(|&(_, other)| other == index);
                prop_assert_eq!(is_queued(all[index]), queued);
                match step {
                    0 if !queued => {
                        let first = model.iter().all(|&(other, _)| time < other);
                        model.push((time, index));
                        prop_assert_eq!(timers.insert(all[index], time), first);
                    }
                    1 => {
                        timers.remove(all[index]);
                        model.retain(|&(_, other)| other != index);
                    }
                    _ => {
                        let taken = timers.pop_due(time).map(|thread| thread.number);
                        let earliest = model.iter().map(|&(time, _)| time).min().filter(|&due| due <= time);
                        let expected: Vec<_> =
                            model.iter().filter(|&&(due, _)| Some(due) == earliest).map(|&(_, index)| index).collect();
                        prop_assert_eq!(taken.is_some(), earliest.is_some());
                        prop_assert!(taken.is_none_or(|taken| expected.contains(&taken)));
                        model.retain(|&(_, other)| Some(other) != taken);
                    }
                }
                prop_assert_eq!(timers.next_deadline(), model.iter().map(|&(time, _)| time).min());
            }
        }
    }

    #[test]
    fn timer_heap_pops_ten_thousand_timers_in_order() {
        let all = threads(10_000);
        let mut timers = TimerHeap::<TestThread>::new();
        for thread in &all {
            timers.insert(thread, (thread.number as u64 * 7919) % 10_007);
        }
        let order: Vec<_> = core::iter::from_fn(|| timers.pop_due(u64::MAX))
            .map(|thread| (thread.number as u64 * 7919) % 10_007)
            .collect();
        assert_eq!(order.len(), 10_000);
        assert!(order.is_sorted());
    }
}
