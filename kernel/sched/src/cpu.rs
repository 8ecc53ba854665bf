//! The ready threads of each CPU, and what concerns all CPUs: where a thread runs, and who has time for it.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crossbeam_utils::atomic::AtomicCell;
use hermit_interface::MAX_CPUS;

use crate::policy::Policy;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Lock, fence, spin_loop};
use crate::thread::Thread;

/// One CPU: `L` is a lock around a policy `P` for threads `T`.
#[derive(Debug)]
pub struct Cpu<T: 'static, P, L> {
    number: u32,
    ready: L,
    /// How many threads are ready, for those who only want to know whether the lock is worth taking.
    ready_count: AtomicU32,
    current: AtomicCell<&'static T>,
    /// A slice is running: at its end the timer calls.
    slice: AtomicBool,
    /// When the current thread was charged last.
    charged: AtomicU64,
    policy: PhantomData<fn() -> P>,
}

/// A place for a CPU, or for none.
type Place<T, P, L> = AtomicCell<Option<&'static Cpu<T, P, L>>>;

/// All of them.
#[derive(Debug)]
pub struct Cpus<T: 'static, P: 'static, L: 'static> {
    all: [Place<T, P, L>; MAX_CPUS],
    count: AtomicU32,
    /// A bit for each CPU that has nothing to do.
    idle: AtomicU64,
}

/// What has to be done because a thread is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Nothing.
    Nobody,
    /// This CPU has to look at its queue again.
    Cpu(u32),
}

impl<T: Thread, P: Policy<T>, L: Lock<P>> Cpu<T, P, L> {
    /// The CPU of this number, which runs `current`; the lock is around a policy without threads.
    pub fn new(number: u32, current: &'static T, ready: L) -> Self {
        Self {
            number,
            ready,
            ready_count: AtomicU32::new(0),
            current: AtomicCell::new(current),
            slice: AtomicBool::new(false),
            charged: AtomicU64::new(0),
            policy: PhantomData,
        }
    }

    /// Its number.
    #[inline]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// The thread that it runs. It is right when the CPU itself asks.
    #[inline]
    pub fn current(&self) -> &'static T {
        self.current.load()
    }

    /// How many threads wait for the CPU.
    #[inline]
    pub fn ready_count(&self) -> u32 {
        self.ready_count.load(Relaxed)
    }

    fn count(&self, change: impl FnOnce(u32) -> u32) {
        // Only changed under the lock.
        self.ready_count.store(change(self.ready_count.load(Relaxed)), Relaxed);
    }

    /// The CPU goes on with `next`.
    #[inline]
    fn run(&self, next: &'static T) -> &'static T {
        next.entity().set_cpu(self.number);
        self.current.store(next);
        next
    }

    fn charge(&self, policy: &mut P, current: &'static T, now: impl FnOnce() -> u64) {
        if P::ACCOUNTS {
            let now = now();
            let since = self.charged.swap(now, Relaxed);
            policy.charge(current, now.saturating_sub(since));
        }
    }

    /// The current thread, which must not be an idle one, lets others go first. Returns whom to switch to, if there is
    /// somebody.
    #[inline]
    pub fn yield_now(&self, current: &'static T, now: impl FnOnce() -> u64) -> Option<&'static T> {
        if self.ready_count() == 0 {
            return None;
        }
        let next = self.ready.with(|policy| {
            self.charge(policy, current, now);
            policy.exchange(current)
        })?;
        Some(self.run(next))
    }

    /// The slice of the current thread, which must not be an idle one, is over, or somebody better is ready. Returns
    /// whom to switch to, if there is somebody.
    pub fn preempt(&self, slice_over: bool, now: impl FnOnce() -> u64) -> Option<&'static T> {
        let current = self.current();
        let next = self.ready.with(|policy| {
            self.charge(policy, current, now);
            let next = if slice_over { policy.after_slice(current) } else { policy.better_than(current) }?;
            policy.put_back(current);
            Some(next)
        })?;
        Some(self.run(next))
    }

    /// The current thread waits. Returns whom to switch to, or nobody if the CPU has nothing to do.
    #[inline]
    pub fn next(&self, now: impl FnOnce() -> u64) -> Option<&'static T> {
        if self.ready_count() == 0 && !P::ACCOUNTS {
            return None;
        }
        let current = self.current();
        let next = self.ready.with(|policy| {
            self.charge(policy, current, now);
            let next = policy.next()?;
            self.count(|count| count - 1);
            Some(next)
        })?;
        Some(self.run(next))
    }

    /// The CPU has nothing to do and runs its idle thread.
    pub fn run_idle(&self, idle: &'static T) -> &'static T {
        self.run(idle)
    }

    /// Whether a time slice must be started: somebody waits, and none is running.
    #[inline]
    pub fn needs_slice(&self) -> bool {
        P::SLICE.is_some() && self.ready_count() > 0 && !self.slice.load(Relaxed)
    }

    /// Notes whether a slice is running.
    pub fn set_slice(&self, running: bool) {
        self.slice.store(running, Relaxed);
    }

    /// Adds a thread that is ready; `true` if the CPU must look: the thread is a better one, or a slice must be started.
    #[inline]
    fn add(&self, thread: &'static T) -> bool {
        self.ready.with(|policy| {
            policy.add(thread);
            self.count(|count| count + 1);
            (P::SLICE.is_some() && !self.slice.load(Relaxed)) || policy.preempts(thread, self.current())
        })
    }

    /// Takes a thread that can run elsewhere.
    fn give(&self) -> Option<&'static T> {
        if self.ready_count() == 0 {
            return None;
        }
        self.ready.with(|policy| {
            let thread = policy.iter().find(|thread| !thread.entity().is_pinned() && !thread.is_running())?;
            policy.remove(thread);
            self.count(|count| count - 1);
            Some(thread)
        })
    }

    /// Whether a thread is ready that can run elsewhere, at once or when this CPU has left it.
    fn has_for_others(&self) -> bool {
        self.ready_count() > 0
            && self.ready.with(|policy| policy.iter().any(|thread| !thread.entity().is_pinned()))
    }
}

impl<T, P, L> Default for Cpus<T, P, L> {
    fn default() -> Self {
        Self {
            all: [const { AtomicCell::new(None) }; MAX_CPUS],
            count: AtomicU32::new(0),
            idle: AtomicU64::new(0),
        }
    }
}

impl<T, P, L> Cpus<T, P, L> {
    /// No CPU runs.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            all: [const { AtomicCell::new(None) }; MAX_CPUS],
            count: AtomicU32::new(0),
            idle: AtomicU64::new(0),
        }
    }

    /// How many CPUs run.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// The CPU of this number, if it runs.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&'static Cpu<T, P, L>> {
        self.all.get(number as usize)?.load()
    }

    /// Whether a CPU has nothing to do.
    #[inline]
    pub fn is_idle(&self, number: u32) -> bool {
        self.idle.load(Relaxed) & bit(number) != 0
    }

    /// A CPU has something to do again.
    pub fn leave_idle(&self, number: u32) {
        self.idle.fetch_and(!bit(number), SeqCst);
    }
}

const fn bit(number: u32) -> u64 {
    1 << (number % 64)
}

impl<T: Thread, P: Policy<T>, L: Lock<P>> Cpus<T, P, L> {
    /// A CPU runs from now on. Numbers that are too high are ignored.
    pub fn add(&self, cpu: &'static Cpu<T, P, L>) {
        if let Some(slot) = self.all.get(cpu.number as usize) {
            slot.store(Some(cpu));
            self.count.fetch_add(1, Relaxed);
        }
    }

    /// Makes a thread ready that waited or is new.
    #[inline]
    pub fn make_ready(&self, thread: &'static T) -> Told {
        let entity = thread.entity();
        let (home, pinned) = (entity.cpu(), entity.is_pinned());
        if self.count() == 1 {
            // If it is idle, it is in the middle of whatever has woken the thread, and looks again after that.
            let looks = self.get(home).is_some_and(|cpu| cpu.add(thread));
            return if looks { Told::Cpu(home) } else { Told::Nobody };
        }
        // A thread that still uses its stack can only go on where it is.
        let fixed = pinned || thread.is_running();
        let claimed = if fixed { None } else { self.claim_idle(home) };
        let number = claimed.unwrap_or(home);
        let Some(cpu) = self.get(number) else { return Told::Nobody };
        let must_look = cpu.add(thread);
        if claimed.is_some() {
            return Told::Cpu(number);
        }
        if must_look {
            if self.is_idle(number) {
                self.leave_idle(number);
            }
            return Told::Cpu(number);
        }
        self.tell_idle(home, pinned)
    }

    /// Wakes a thread if it waits, else it will not wait when it next wants to.
    #[inline]
    pub fn wake(&self, thread: &'static T) -> Told {
        if thread.entity().unpark() { self.make_ready(thread) } else { Told::Nobody }
    }

    /// Picks a CPU that has nothing to do, preferably `home`, which nobody else will pick then.
    #[inline]
    fn claim_idle(&self, home: u32) -> Option<u32> {
        let mut idle = self.idle.load(Relaxed);
        while idle != 0 {
            let near = idle.rotate_right(home % 64).trailing_zeros();
            let number = (home + near) % 64;
            if self.claim(number) {
                return Some(number);
            }
            idle &= !bit(number);
        }
        None
    }

    /// Picks this CPU, if it has nothing to do and nobody else has picked it.
    #[inline]
    fn claim(&self, number: u32) -> bool {
        self.is_idle(number) && self.idle.fetch_and(!bit(number), SeqCst) & bit(number) != 0
    }

    /// A thread was left to a CPU that was busy; that or another one may have become idle at the same moment and not
    /// have seen it. And if the thread still uses its stack, its CPU may be about to go on with another.
    #[inline]
    fn tell_idle(&self, home: u32, pinned: bool) -> Told {
        if self.count() > 1 {
            // Either the bit is seen here, or `next_or_idle` sees the thread.
            fence(SeqCst);
        }
        let told = if pinned { self.claim(home).then_some(home) } else { self.claim_idle(home) };
        told.map_or(Told::Nobody, Told::Cpu)
    }

    /// Threads may wait for a busy CPU although another one has had nothing to do since: tells one that may take them.
    pub fn offer(&self, cpu: &Cpu<T, P, L>) -> Told {
        if self.count() == 1 || !cpu.has_for_others() {
            return Told::Nobody;
        }
        self.tell_idle(cpu.number, false)
    }

    /// What a CPU without anything to do is to run: what has become ready there, or else what it can take from another
    /// one. With nobody it is idle from now on, and will be told.
    pub fn next_or_idle(&self, cpu: &Cpu<T, P, L>, now: impl Fn() -> u64) -> Option<&'static T> {
        loop {
            let stolen = || self.others(cpu).find_map(Cpu::give).map(|thread| cpu.run(thread));
            if let Some(next) = cpu.next(&now).or_else(stolen) {
                // Whoever told this CPU may not have known that it was idle.
                self.claim(cpu.number);
                return Some(next);
            }
            self.idle.fetch_or(bit(cpu.number), SeqCst);
            // What became ready before that, nobody has told: either it is seen here, or `tell_idle` sees the bit.
            fence(SeqCst);
            let must_look = cpu.ready_count() > 0 || self.others(cpu).any(Cpu::has_for_others);
            // Somebody who has picked this CPU meanwhile counts on it for another thread, and tells it.
            if !must_look || !self.claim(cpu.number) {
                return None;
            }
            spin_loop();
        }
    }

    /// The other CPUs, beginning with the next.
    fn others(&self, cpu: &Cpu<T, P, L>) -> impl Iterator<Item = &'static Cpu<T, P, L>> {
        let (count, own) = (self.highest(), cpu.number as usize);
        (1..count).filter_map(move |offset| self.all.get((own + offset) % count)?.load())
    }

    /// One more than the highest number of a CPU.
    fn highest(&self) -> usize {
        // CPUs are numbered without gaps, but may be added in any order.
        let count = self.count() as usize;
        if self.all.get(count.saturating_sub(1)).is_some_and(|last| last.load().is_some()) {
            count
        } else {
            self.all.len()
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
