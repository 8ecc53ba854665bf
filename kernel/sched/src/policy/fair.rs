//! Fair scheduling: each thread gets CPU time in proportion to its weight, which its priority sets.
//!
//! A thread's virtual runtime is its run time divided by its weight; the thread with the least virtual runtime is
//! next. The order is exact to a quantum: the run queue is a calendar queue, a ring of lists, in which a thread's
//! list is its virtual runtime in quanta, modulo the size of the ring.

use core::sync::atomic::Ordering::Relaxed;

use super::Policy;
use crate::queue_array::QueueArray;
use crate::thread::Thread;

/// Number of lists in the ring.
const LISTS: usize = 64;

/// Span of virtual runtime of one list of the ring, in nanoseconds.
const QUANTUM: u64 = 1 << 20;

/// Priority of weight 1: the virtual runtime of such a thread is its run time.
const NORMAL_PRIORITY: u8 = 2;

/// The fair policy: a calendar queue by virtual runtime.
#[derive(Debug)]
pub struct Fair<T: 'static> {
    ring: QueueArray<T, LISTS>,
    /// Virtual time of the CPU: the virtual runtime of the last picked thread. The minimum for enqueued threads.
    now: u64,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self { ring: QueueArray::new(), now: 0 }
    }
}

/// Index of the list for a virtual runtime.
fn list_index(runtime: u64) -> usize {
    usize::from((runtime / QUANTUM).to_le_bytes()[0]) % LISTS
}

/// Converts a run time into virtual runtime: each step of priority is worth a quarter more or less CPU time.
fn virtual_runtime(nanoseconds: u64, priority: u8) -> u64 {
    let mut time = nanoseconds;
    for _ in NORMAL_PRIORITY..priority {
        time = time / 5 * 4;
    }
    for _ in priority..NORMAL_PRIORITY {
        time = time / 4 * 5;
    }
    time
}

impl<T: Thread> Fair<T> {
    fn insert(&mut self, thread: &'static T) {
        let runtime = &thread.entity().runtime;
        // The minimum keeps a thread from saving up time while it is blocked. The maximum bounds a thread's debt, and
        // keeps the ring from overlapping itself.
        let latest = self.now + (LISTS as u64 - 2) * QUANTUM;
        let time = runtime.load(Relaxed).clamp(self.now, latest);
        runtime.store(time, Relaxed);
        self.ring.push(thread, list_index(time));
    }

    fn pop(&mut self, index: usize) -> Option<&'static T> {
        let thread = self.ring.pop(index)?;
        self.now = self.now.max(thread.entity().runtime.load(Relaxed));
        Some(thread)
    }
}

impl<T: Thread> Policy<T> for Fair<T> {
    const SLICE: Option<u64> = Some(4_000_000);
    const ACCOUNTS: bool = true;

    fn enqueue(&mut self, thread: &'static T) {
        self.insert(thread);
    }

    fn requeue(&mut self, thread: &'static T) {
        self.insert(thread);
    }

    fn pick_next(&mut self) -> Option<&'static T> {
        let index = self.ring.first(list_index(self.now))?;
        self.pop(index)
    }

    fn pick_on_yield(&mut self, current: &'static T) -> Option<&'static T> {
        // Behind all threads of the same virtual runtime.
        let next = self.pick_next()?;
        let runtime = &current.entity().runtime;
        runtime.fetch_max(next.entity().runtime.load(Relaxed), Relaxed);
        Some(next)
    }

    fn pick_after_slice(&mut self, current: &'static T) -> Option<&'static T> {
        let next = self.pick_next()?;
        if next.entity().runtime.load(Relaxed) <= current.entity().runtime.load(Relaxed) {
            return Some(next);
        }
        self.insert(next);
        None
    }

    fn preempts(&self, woken: &'static T, current: &'static T) -> bool {
        let time = |thread: &'static T| thread.entity().runtime.load(Relaxed).max(self.now);
        time(woken) + QUANTUM < time(current) || woken.entity().priority() > current.entity().priority()
    }

    fn iter(&self) -> impl Iterator<Item = &'static T> {
        self.ring.iter()
    }

    fn dequeue(&mut self, thread: &'static T) {
        self.ring.remove(thread);
    }

    fn charge(&mut self, thread: &'static T, nanoseconds: u64) {
        let time = virtual_runtime(nanoseconds, thread.entity().priority());
        thread.entity().runtime.fetch_add(time, Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Fair;
    use crate::policy::Policy;
    use crate::testing::{TestThread, threads};

    const SLICE: u64 = 4_000_000;

    fn shares<const N: usize>(priorities: [u8; N], rounds: usize) -> [u32; N] {
        let all = threads(N);
        let mut policy = Fair::<TestThread>::default();
        for (thread, priority) in all.iter().zip(priorities) {
            thread.entity.set_priority(priority);
            policy.enqueue(thread);
        }
        let mut ran = [0; N];
        let mut current = policy.pick_next().unwrap();
        for _ in 0..rounds {
            ran[current.number] += 1;
            policy.charge(current, SLICE);
            if let Some(next) = policy.pick_after_slice(current) {
                policy.requeue(current);
                current = next;
            }
        }
        ran
    }

    #[test]
    fn threads_of_equal_priority_get_equal_shares() {
        let ran = shares([2; 5], 1000);
        assert!(ran.iter().all(|&slices| slices.abs_diff(200) <= 3), "{ran:?}");
    }

    #[test]
    fn higher_priority_gets_a_larger_share_and_lower_does_not_starve() {
        let ran = shares([2, 2, 5], 3000);
        assert!(ran[2] > ran[0] && ran[2] > ran[1] && ran[0] > 300 && ran[1] > 300, "{ran:?}");
    }

    #[test]
    fn blocked_thread_does_not_save_up_time() {
        let all = threads(2);
        let mut policy = Fair::<TestThread>::default();
        for _ in 0..100 {
            policy.charge(all[0], SLICE);
            policy.requeue(all[0]);
            assert_eq!(policy.pick_next().map(|thread| thread.number), Some(0));
        }
        policy.enqueue(all[1]);
        let mut turns = 0;
        let mut current = policy.pick_next().unwrap();
        policy.requeue(all[0]);
        while current.number == 1 {
            turns += 1;
            policy.charge(current, SLICE);
            policy.requeue(current);
            current = policy.pick_next().unwrap();
        }
        assert!(turns <= 2, "{turns}");
    }
}
