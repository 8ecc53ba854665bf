//! Everybody gets time in proportion to a weight that its priority sets.
//!
//! Each thread's time is counted, divided by its weight; who has had least is next. The order is kept to a quantum: a
//! ring of lists, as in a calendar queue, in which a thread's place is how far it is ahead of the CPU's own virtual
//! time.

use core::sync::atomic::Ordering::Relaxed;

use super::Policy;
use crate::levels::Levels;
use crate::thread::Thread;

const LISTS: usize = 64;

/// The virtual time in nanoseconds that one list of the ring stands for.
const QUANTUM: u64 = 1 << 20;

/// The virtual time of a thread of priority 2, the normal one, is the time that it ran.
const NORMAL_PRIORITY: u8 = 2;

/// A ring of lists.
#[derive(Debug)]
pub struct Fair<T: 'static> {
    ring: Levels<T, LISTS>,
    /// The virtual time of whoever ran last: nobody who becomes ready has had less.
    now: u64,
}

impl<T> Default for Fair<T> {
    fn default() -> Self {
        Self { ring: Levels::new(), now: 0 }
    }
}

/// The list for a moment of virtual time.
fn list(runtime: u64) -> usize {
    usize::from((runtime / QUANTUM).to_le_bytes()[0]) % LISTS
}

/// Virtual time: each step of priority is worth a quarter more or less of the time.
fn weighed(nanoseconds: u64, priority: u8) -> u64 {
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
        // Neither does waiting save up time, nor does a debt last for ever, nor may the ring overlap itself.
        let latest = self.now + (LISTS as u64 - 2) * QUANTUM;
        let time = runtime.load(Relaxed).clamp(self.now, latest);
        runtime.store(time, Relaxed);
        self.ring.push(thread, list(time));
    }

    fn take(&mut self, list: usize) -> Option<&'static T> {
        let thread = self.ring.pop(list)?;
        self.now = self.now.max(thread.entity().runtime.load(Relaxed));
        Some(thread)
    }
}

impl<T: Thread> Policy<T> for Fair<T> {
    const SLICE: Option<u64> = Some(4_000_000);
    const ACCOUNTS: bool = true;

    fn add(&mut self, thread: &'static T) {
        self.insert(thread);
    }

    fn put_back(&mut self, thread: &'static T) {
        self.insert(thread);
    }

    fn next(&mut self) -> Option<&'static T> {
        let list = self.ring.first(list(self.now))?;
        self.take(list)
    }

    fn instead_of(&mut self, current: &'static T) -> Option<&'static T> {
        // Who yields goes behind everybody who is as far.
        let next = self.next()?;
        let runtime = &current.entity().runtime;
        runtime.fetch_max(next.entity().runtime.load(Relaxed), Relaxed);
        Some(next)
    }

    fn after_slice(&mut self, current: &'static T) -> Option<&'static T> {
        let next = self.next()?;
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

    fn remove(&mut self, thread: &'static T) {
        self.ring.remove(thread);
    }

    fn charge(&mut self, thread: &'static T, nanoseconds: u64) {
        let time = weighed(nanoseconds, thread.entity().priority());
        thread.entity().runtime.fetch_add(time, Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Fair;
    use crate::policy::Policy;
    use crate::testing::{Simple, threads};

    const SLICE: u64 = 4_000_000;

    fn shares<const N: usize>(priorities: [u8; N], rounds: usize) -> [u32; N] {
        let all = threads(N);
        let mut policy = Fair::<Simple>::default();
        for (thread, priority) in all.iter().zip(priorities) {
            thread.entity.set_priority(priority);
            policy.add(thread);
        }
        let mut ran = [0; N];
        let mut current = policy.next().unwrap();
        for _ in 0..rounds {
            ran[current.number] += 1;
            policy.charge(current, SLICE);
            if let Some(next) = policy.after_slice(current) {
                policy.put_back(current);
                current = next;
            }
        }
        ran
    }

    #[test]
    fn equals_get_equal_shares() {
        let ran = shares([2; 5], 1000);
        assert!(ran.iter().all(|&slices| slices.abs_diff(200) <= 3), "{ran:?}");
    }

    #[test]
    fn more_priority_is_more_time_and_nobody_starves() {
        let ran = shares([2, 2, 5], 3000);
        assert!(ran[2] > ran[0] && ran[2] > ran[1] && ran[0] > 300 && ran[1] > 300, "{ran:?}");
    }

    #[test]
    fn a_sleeper_does_not_save_up_time() {
        let all = threads(2);
        let mut policy = Fair::<Simple>::default();
        for _ in 0..100 {
            policy.charge(all[0], SLICE);
            policy.put_back(all[0]);
            assert_eq!(policy.next().map(|thread| thread.number), Some(0));
        }
        policy.add(all[1]);
        let mut turns = 0;
        let mut current = policy.next().unwrap();
        policy.put_back(all[0]);
        while current.number == 1 {
            turns += 1;
            policy.charge(current, SLICE);
            policy.put_back(current);
            current = policy.next().unwrap();
        }
        assert!(turns <= 2, "{turns}");
    }
}
