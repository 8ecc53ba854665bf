//! Timers of sleeping threads: an intrusive leftist heap, whose nodes are fields of the threads.
//!
//! Every insertion and removal takes logarithmic time in the number of timers (Crane: Linear lists and
//! priority queues as balanced binary trees, 1972). They happen under a spinlock, so a bound on the average
//! would not be enough. The rank of a node is the length of the shortest path from it to a node that lacks a
//! child. The right child of a node never has a greater rank than the left child.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use hermit_base::sync::IS_MODEL;

use crate::link::TimerLink;
use crate::list::{is, same};
use crate::thread::{Thread, TimerNode};

/// Maximum number of timers that [`TimerHeap::expire`] removes at a time.
pub const BATCH: usize = if IS_MODEL { 1 } else { 16 };

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

/// Returns true if the timer of a thread is in a heap. Only the thread itself inserts and removes its timer;
/// expiry ([`TimerHeap::pop_due`]) also removes it.
#[inline]
pub fn is_queued<T: Thread>(thread: &'static T) -> bool {
    timer(thread).queued.load(Acquire)
}

fn child<T: Thread>(node: &'static T, side: Side) -> &'static TimerLink<T> {
    let [left, right] = &timer(node).children;
    match side {
        Side::Left => left,
        Side::Right => right,
    }
}

/// A child of a node.
#[derive(Clone, Copy)]
enum Side {
    Left,
    Right,
}

fn rank<T: Thread>(node: Option<&'static T>) -> u8 {
    node.map_or(0, |node| timer(node).rank.load(Relaxed))
}

/// Melds two heaps, whose roots have no parents. Follows only the right edges, since the paths of right edges
/// have logarithmic length.
fn meld<T: Thread>(one: &'static T, other: &'static T) -> &'static T {
    let in_order = |one, other| if deadline(other) < deadline(one) { (other, one) } else { (one, other) };
    let (root, mut rest) = in_order(one, other);
    let mut above = root;
    while let Some(right) = child(above, Side::Right).load() {
        #[cfg(test)]
        #[cfg(not(loom))]
        tests::count_step();
        let (next, later) = in_order(right, rest);
        set_right(above, next);
        (above, rest) = (next, later);
    }
    set_right(above, rest);
    let mut changed = Some(above);
    while let Some(node) = changed {
        balance(node);
        changed = timer(node).parent.load();
    }
    root
}

fn set_right<T: Thread>(parent: &'static T, node: &'static T) {
    child(parent, Side::Right).store(Some(node));
    timer(node).parent.store(Some(parent));
}

/// Exchanges the children of a node if the right child has the greater rank. Returns true if the node's own
/// rank has changed.
fn balance<T: Thread>(node: &'static T) -> bool {
    #[cfg(test)]
    #[cfg(not(loom))]
    tests::count_step();
    let (left, right) = (child(node, Side::Left).load(), child(node, Side::Right).load());
    if rank(left) < rank(right) {
        child(node, Side::Left).store(right);
        child(node, Side::Right).store(left);
    }
    let own = rank(left).min(rank(right)) + 1;
    let has_changed = own != timer(node).rank.load(Relaxed);
    if has_changed {
        timer(node).rank.store(own, Relaxed);
    }
    has_changed
}

/// Takes the children of a node and melds them.
fn meld_children<T: Thread>(node: &'static T) -> Option<&'static T> {
    let (left, right) = (child(node, Side::Left).load(), child(node, Side::Right).load());
    [left, right].into_iter().flatten().for_each(|child| timer(child).parent.store(None));
    // A node without a left child has no right child either.
    Some(right.map_or(left?, |right| meld(left.unwrap_or(right), right)))
}

impl<T: Thread> TimerHeap<T> {
    /// Earliest deadline.
    #[inline]
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.root.map(deadline)
    }

    /// Inserts the timer of a thread, which must not be in a heap. Returns true if its deadline is now the
    /// earliest.
    pub fn insert(&mut self, thread: &'static T, deadline: u64) -> bool {
        let own = timer(thread);
        own.deadline.store(deadline, Relaxed);
        own.children.iter().chain([&own.parent]).for_each(|link| link.store(None));
        own.rank.store(1, Relaxed);
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
        // This must be the last access to the node: as soon as the owner sees this store, it may insert the
        // node into another CPU's heap.
        own.queued.store(false, Release);
    }

    /// Takes the node of a thread out of the tree.
    fn unlink(&mut self, thread: &'static T) {
        let below = meld_children(thread);
        let Some(parent) = timer(thread).parent.load() else {
            self.root = below;
            return;
        };
        if let Some(below) = below {
            timer(below).parent.store(Some(parent));
        }
        let is_left = is(child(parent, Side::Left).load(), thread);
        child(parent, if is_left { Side::Left } else { Side::Right }).store(below);
        let mut changed = Some(parent);
        while let Some(node) = changed.filter(|node| balance(*node)) {
            changed = timer(node).parent.load();
        }
    }

    /// Removes and returns at most [`BATCH`] threads whose deadlines are not later than `now`, in the order
    /// of their deadlines. The caller wakes them without the lock of the heap. If [`Self::next_deadline`] is
    /// still not later than `now`, the caller calls this again, but handles other interrupts first.
    #[must_use = "the threads sleep until they are woken"]
    pub fn expire(&mut self, now: u64) -> heapless::Vec<&'static T, BATCH> {
        let mut due = heapless::Vec::new();
        core::iter::from_fn(|| self.pop_due(now)).take(BATCH).for_each(|thread| _ = due.push(thread));
        due
    }

    /// Removes and returns the thread with the earliest deadline, if this deadline is not later than `now`.
    fn pop_due(&mut self, now: u64) -> Option<&'static T> {
        let thread = self.root.filter(|&root| deadline(root) <= now)?;
        self.remove(thread);
        Some(thread)
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    extern crate std;

    use super::{BATCH, TimerHeap, is_queued};
    use crate::testing::{TestThread, threads};
    use core::cell::Cell;
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use std::thread_local;
    use std::vec::Vec;

    thread_local! {
        /// Number of nodes that were visited.
        static STEPS: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn count_step() {
        STEPS.set(STEPS.get() + 1);
    }

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

    /// Every operation under the lock of the heap takes a bounded number of steps, not only the average one.
    #[test]
    fn ten_thousand_timers_of_one_deadline_expire_in_batches_of_few_steps() {
        const MAX_STEPS: usize = 64;
        let all = threads(10_000);
        let mut timers = TimerHeap::<TestThread>::new();
        let steps_of = |action: &mut dyn FnMut()| {
            let before = STEPS.get();
            action();
            STEPS.get() - before
        };
        for thread in &all {
            assert!(steps_of(&mut || _ = timers.insert(thread, 7)) <= MAX_STEPS);
        }
        timers.insert(threads(1)[0], 9);
        assert!(timers.expire(6).is_empty());
        for batch in 1..=10_000 / BATCH / 2 {
            let steps = steps_of(&mut || assert_eq!(timers.expire(8).len(), BATCH));
            assert!(steps <= BATCH * MAX_STEPS, "{steps} steps");
            assert_eq!(all.iter().filter(|thread| !is_queued::<TestThread>(thread)).count(), batch * BATCH);
        }
        // These threads are removed before their timers expire, because they are woken otherwise.
        for thread in all.into_iter().filter(|thread| is_queued::<TestThread>(thread)) {
            let steps = steps_of(&mut || timers.remove(thread));
            assert!(steps <= MAX_STEPS, "{steps} steps");
        }
        assert!(timers.expire(8).is_empty());
        assert_eq!(timers.next_deadline(), Some(9));
    }
}
