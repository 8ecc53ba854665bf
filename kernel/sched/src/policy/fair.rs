//! Fair scheduling: threads of normal priority get equal shares of a CPU, and one that wakes up after it has
//! used less than its share runs at once. The default policy.
//!
//! # Idea
//!
//! As in Linux's CFS, each thread has a *virtual runtime*, the time that it has run on its CPU. The ready
//! thread with the smallest virtual runtime is next. The CPU has a *virtual time*, which follows the smallest
//! virtual runtime. A thread that was blocked keeps its virtual runtime, but is moved to at most
//! [`CREDIT_NS`] before the virtual time. So it is ahead of threads that have computed meanwhile and preempts
//! them, but it cannot save up more than this credit. A woken thread that is ahead of the current thread by
//! less than [`GRANULARITY_NS`] does not preempt it. Otherwise threads that wake each other would switch
//! twice for each message.
//!
//! Run time is accounted only while threads contend for the CPU. Threads that wake each other without
//! computing for long take turns in the order of their wake-ups ([`RoundRobin`]), and the scheduler does not
//! read the clock. When a thread is found to compute while others are ready, accounting begins
//! ([`Policy::begin_accounting`]). It ends after a time slice in which no thread has run for
//! [`Policy::LONG_RUN`] without blocking.
//!
//! # Structure
//!
//! The ready threads of normal priority are in a calendar queue (Brown, 1988): a ring of lists, in which a
//! thread's list is its virtual runtime in quanta modulo the size of the ring. So all operations take
//! constant time, and the order is exact to a quantum. The ring uses the lists of the ranks between the
//! normal priority and the lower ones.
//!
//! # Other priorities
//!
//! Priorities work as in Linux's `SCHED_RR`: a ready thread of a higher priority runs first, and threads of
//! the same priority take turns. Against starvation, every 16th slice goes to the next priority that has a
//! ready thread.

use core::sync::atomic::Ordering::Relaxed;

use super::fifo::LISTS as RANKS;
use super::{Policy, RoundRobin};
use crate::queue_array::QueueArray;
use crate::thread::{NO_CREDIT, NORMAL_LISTS, NORMAL_RANK, Thread};

/// Number of lists of the ring.
const LISTS: usize = NORMAL_LISTS as usize;

/// Span of virtual runtime of one list of the ring, in nanoseconds.
const QUANTUM_NS: u64 = 1 << 19;

/// Maximum time, in nanoseconds, by which the virtual runtime of a woken thread is less than the virtual time
/// of its CPU.
pub(crate) const CREDIT_NS: u64 = 6 * QUANTUM_NS;

/// Maximum time, in nanoseconds, by which the virtual runtime of a ready thread exceeds the virtual time. It
/// bounds a thread's debt, and keeps the ring of lists from overlapping itself.
const MAX_DEBT_NS: u64 = 24 * QUANTUM_NS;
const _: () = assert!(
    CREDIT_NS + MAX_DEBT_NS < (LISTS as u64 - 1) * QUANTUM_NS,
    "the ring has a list for each quantum"
);

/// Time, in nanoseconds, by which a woken thread must have run less than the current one to preempt it.
const GRANULARITY_NS: u64 = QUANTUM_NS;

/// First list of the ring.
const RING: usize = NORMAL_RANK + 1;

/// The fair policy: round-robin, with a calendar queue by virtual runtime while run time is accounted.
#[derive(Debug)]
pub struct Fair<T: 'static> {
    queues: RoundRobin<T>,
    /// Virtual time of the CPU, in nanoseconds.
    now: u64,
    is_accounting: bool,
    /// True if a thread has run for long since the last slice ended.
    had_long_run: bool,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self { queues: RoundRobin::default(), now: 0, is_accounting: false, had_long_run: false }
    }
}

/// Returns the list of the ring for a virtual runtime, counted from [`RING`].
fn ring_index(runtime: u64) -> usize {
    usize::from((runtime / QUANTUM_NS).to_le_bytes()[0]) % LISTS
}

/// True for a list of the ring.
fn is_in_ring(list: usize) -> bool {
    (RING..RING + LISTS).contains(&list)
}

fn is_normal<T: Thread>(thread: &'static T) -> bool {
    thread.entity().rank() == NORMAL_RANK
}

impl<T: Thread> Fair<T> {
    const fn lists(&self) -> &QueueArray<T, RANKS> {
        &self.queues.order.queues
    }

    const fn lists_mut(&mut self) -> &mut QueueArray<T, RANKS> {
        &mut self.queues.order.queues
    }

    /// The smallest possible virtual runtime of a ready thread.
    const fn earliest(&self) -> u64 {
        self.now.saturating_sub(CREDIT_NS)
    }

    /// Virtual runtime of a thread, within the bounds of ready threads.
    fn runtime(&self, thread: &'static T) -> u64 {
        let own = thread.entity().runtime.load(Relaxed);
        let own = if own == NO_CREDIT { self.now } else { own };
        own.clamp(self.earliest(), self.now + MAX_DEBT_NS)
    }

    /// Adds a thread to the ring.
    fn insert(&mut self, thread: &'static T) {
        let runtime = self.runtime(thread);
        thread.entity().runtime.store(runtime, Relaxed);
        self.lists_mut().push(thread, RING + ring_index(runtime));
    }

    /// Moves a thread that was added with normal priority to the ring. Its priority may have changed since
    /// then, but its list counts.
    fn sort(&mut self) {
        if let Some(added) = self.lists_mut().pop(NORMAL_RANK) {
            self.insert(added);
        }
    }

    /// Bitmap of the lists of the ring that are not empty.
    fn used_of_ring(&self) -> u32 {
        u32::try_from(self.lists().used() >> RING & u64::from(u32::MAX)).unwrap_or_default()
    }

    /// The list of the ring with the smallest virtual runtimes.
    fn first_of_ring(&self) -> Option<usize> {
        let start = ring_index(self.earliest());
        let from_start = self.used_of_ring().rotate_right(u32::try_from(start).unwrap_or_default());
        (from_start != 0).then(|| RING + (start + from_start.trailing_zeros() as usize) % LISTS)
    }

    /// The list of the next thread, and the rank of that thread.
    fn first(&self) -> Option<(usize, usize)> {
        let first = self.lists().first(0)?;
        if is_in_ring(first) {
            return Some((self.first_of_ring()?, NORMAL_RANK));
        }
        Some((first, first))
    }

    /// Takes the next thread if it has a higher priority than `current`. If both have the same priority,
    /// takes it if `is_next` returns true. `is_next` receives the virtual runtimes of the next thread and of
    /// `current`, which are 0 unless the priority is normal.
    fn take(&mut self, current: &'static T, is_next: impl FnOnce(u64, u64) -> bool) -> Option<&'static T> {
        let ((list, rank), own) = (self.first()?, current.entity().rank());
        let is_taken = if rank == own {
            let runtime = |thread| if own == NORMAL_RANK { self.runtime(thread) } else { 0 };
            is_next(self.lists().head(list).map_or(0, runtime), runtime(current))
        } else {
            rank < own
        };
        if is_taken { self.lists_mut().pop(list) } else { None }
    }

    /// Takes the next thread from the ring. Called if no list before the ring has a thread.
    #[cold]
    #[inline(never)]
    fn pick_from_ring(&mut self) -> Option<&'static T> {
        let (list, _) = self.first()?;
        self.lists_mut().pop(list)
    }

    /// Called after a slice of `current`. If the next slice goes to another priority, to prevent starvation,
    /// takes a thread of that priority.
    fn take_against_starvation(&mut self, current: &'static T) -> Option<&'static T> {
        let mut list = self.queues.list_against_starvation()?;
        if is_in_ring(list) {
            self.queues.favoured = RING + LISTS - 1;
            list = self.first_of_ring().filter(|_| !is_normal(current))?;
        }
        self.lists_mut().pop(list)
    }

    /// Ends accounting. The threads of the ring, which are all in one list, take turns from now on.
    fn end_accounting(&mut self) {
        if let Some(list) = self.first_of_ring() {
            self.lists_mut().move_list(list, NORMAL_RANK);
        }
        self.is_accounting = false;
    }
}

impl<T: Thread> Policy<T> for Fair<T> {
    const SLICE: Option<u64> = Some(3_000_000);
    const LONG_RUN: Option<u64> = Some(QUANTUM_NS);

    #[inline]
    fn enqueue(&mut self, thread: &'static T) {
        self.queues.enqueue(thread);
    }

    fn requeue(&mut self, thread: &'static T) {
        self.queues.requeue(thread);
        if self.is_accounting {
            self.sort();
        }
    }

    #[inline]
    fn pick_next(&mut self) -> Option<&'static T> {
        let first = self.lists().first_used();
        if first < RING {
            return self.lists_mut().pop(first);
        }
        self.pick_from_ring()
    }

    #[inline]
    fn yield_to_equal(&mut self, current: &'static T) -> Option<&'static T> {
        // While run time is accounted, the list of normal threads is empty.
        self.queues.yield_to_equal(current)
    }

    fn pick_on_yield(&mut self, current: &'static T) -> Option<&'static T> {
        if !self.is_accounting {
            return self.queues.pick_on_yield(current);
        }
        let next = self.take(current, |_, _| true)?;
        if is_normal(current) && is_normal(next) {
            // Makes `current` follow all threads in the list from which `next` was taken.
            current.entity().runtime.fetch_max(next.entity().runtime.load(Relaxed), Relaxed);
        }
        Some(next)
    }

    fn pick_after_slice(&mut self, current: &'static T) -> Option<&'static T> {
        if !self.is_accounting {
            return self.queues.pick_after_slice(current);
        }
        self.take_against_starvation(current).or_else(|| self.take(current, |next, current| next <= current))
    }

    fn pick_preempting(&mut self, current: &'static T) -> Option<&'static T> {
        if !self.is_accounting {
            return self.queues.pick_preempting(current);
        }
        self.take(current, |next, current| next + GRANULARITY_NS < current)
    }

    #[inline]
    fn preempts(&self, woken: &'static T, current: &'static T) -> bool {
        self.queues.preempts(woken, current)
    }

    fn place(&mut self, woken: &'static T, current: &'static T) -> bool {
        self.sort();
        if is_normal(woken) && is_normal(current) {
            self.runtime(woken) + GRANULARITY_NS < self.runtime(current)
        } else {
            self.queues.preempts(woken, current)
        }
    }

    #[inline]
    fn is_accounting(&self) -> bool {
        self.is_accounting
    }

    fn virtual_time(&self) -> u64 {
        self.now
    }

    #[cold]
    fn begin_accounting(&mut self, now: u64, current: &'static T, ran_ns: u64) {
        if !is_normal(current) {
            return;
        }
        self.now = self.now.max(now);
        let ran = ran_ns.clamp(2 * GRANULARITY_NS, CREDIT_NS);
        current.entity().runtime.store(self.now + ran, Relaxed);
        let list = RING + ring_index(self.now);
        self.lists_mut().move_list(NORMAL_RANK, list);
        self.is_accounting = true;
        self.had_long_run = true;
    }

    fn charge(&mut self, current: &'static T, ran_ns: u64) {
        let mut least = u64::MAX;
        if is_normal(current) {
            let run_ns = current.entity().run_ns.load(Relaxed) + ran_ns;
            current.entity().run_ns.store(run_ns, Relaxed);
            self.had_long_run |= run_ns >= QUANTUM_NS;
            least = self.runtime(current) + ran_ns;
            current.entity().runtime.store(least, Relaxed);
        }
        let first = self.first_of_ring().and_then(|list| self.lists().head(list));
        least = first.map_or(least, |first| least.min(self.runtime(first)));
        if least != u64::MAX {
            self.now = self.now.max(least);
        }
    }

    fn end_run(&mut self, current: &'static T) {
        current.entity().run_ns.store(0, Relaxed);
    }

    fn end_slice(&mut self) {
        let had_long_run = core::mem::take(&mut self.had_long_run);
        let can_end = self.used_of_ring().count_ones() <= 1 && self.lists().head(NORMAL_RANK).is_none();
        if self.is_accounting && !had_long_run && can_end {
            self.end_accounting();
        }
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &'static T)> {
        self.queues.iter()
    }

    fn dequeue(&mut self, list: usize, thread: &'static T) {
        self.queues.dequeue(list, thread);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{CREDIT_NS, Fair, QUANTUM_NS};
    use crate::policy::Policy;
    use crate::testing::{TestThread, threads};
    use crate::thread::NORMAL_PRIORITY;

    const HIGH: u8 = 3;
    const LOW: u8 = 1;

    /// A policy that accounts for run time because the first of several threads with these priorities has
    /// computed.
    fn accounting<const N: usize>(priorities: [u8; N]) -> (Fair<TestThread>, [&'static TestThread; N]) {
        let all: [&'static TestThread; N] = threads(N).try_into().unwrap();
        for (thread, priority) in all.iter().zip(priorities) {
            thread.entity.set_priority(priority);
        }
        let mut policy = Fair::default();
        policy.begin_accounting(1 << 40, all[0], QUANTUM_NS);
        assert!(policy.is_accounting());
        (policy, all)
    }

    #[test]
    fn classes_run_in_the_order_of_their_priorities() {
        let (mut policy, all) = accounting([NORMAL_PRIORITY, LOW, NORMAL_PRIORITY, HIGH]);
        let preempts = [1, 2, 3].map(|number| {
            policy.enqueue(all[number]);
            policy.place(all[number], all[0])
        });
        // The second thread is new, and is not ahead of the current thread by more than the granularity.
        assert_eq!(preempts, [false, true, true]);
        let order = core::array::from_fn(|_| policy.pick_next().map(|thread| thread.number));
        assert_eq!(order, [Some(3), Some(2), Some(1), None]);
    }

    #[test]
    fn every_class_gets_a_slice_now_and_then() {
        let (mut policy, all) = accounting([NORMAL_PRIORITY, LOW, NORMAL_PRIORITY, HIGH]);
        for thread in &all[1..] {
            policy.enqueue(thread);
            policy.place(thread, all[0]);
        }
        let mut current = all[0];
        let mut slices = [0; 4];
        for _ in 0..16 * 30 {
            slices[current.number] += 1;
            policy.charge(current, 3_000_000);
            policy.end_slice();
            if let Some(next) = policy.pick_after_slice(current) {
                policy.requeue(current);
                current = next;
            }
        }
        assert!(slices.iter().all(|&slices| slices >= 4) && slices[3] > 300, "{slices:?}");
        assert_eq!(policy.iter().count(), 3);
    }

    #[test]
    fn woken_thread_preempts_one_that_has_run_for_longer_than_the_granularity() {
        let (mut policy, all) = accounting([NORMAL_PRIORITY; 2]);
        let wake = |policy: &mut Fair<TestThread>, runtime| {
            all[1].entity.runtime.store(runtime, core::sync::atomic::Ordering::Relaxed);
            policy.enqueue(all[1]);
            let preempts = policy.place(all[1], all[0]);
            assert!(policy.pick_next().is_some() && policy.pick_next().is_none());
            preempts
        };
        let now = policy.now;
        assert!(wake(&mut policy, now - 2 * CREDIT_NS));
        assert!(wake(&mut policy, now));
        assert!(!wake(&mut policy, now + QUANTUM_NS));
        assert!(!wake(&mut policy, now + 100 * CREDIT_NS));
    }

    #[test]
    fn accounting_ends_after_a_slice_without_a_long_run() {
        let (mut policy, all) = accounting([NORMAL_PRIORITY; 2]);
        policy.end_slice();
        policy.enqueue(all[1]);
        policy.place(all[1], all[0]);
        let mut current = all[0];
        for _ in 0..10 {
            policy.charge(current, QUANTUM_NS / 2);
            policy.end_run(current);
            let next = policy.pick_on_yield(current).unwrap();
            policy.requeue(current);
            current = next;
        }
        policy.end_slice();
        assert!(!policy.is_accounting());
        assert_eq!(policy.pick_next().map(|thread| thread.number), Some(1 - current.number));
    }
}
