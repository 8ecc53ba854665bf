//! The run queue of each CPU, and load balancing between CPUs: placement of woken threads, work stealing, idle CPUs.
//!
//! Methods that make a thread ready return a [`Reschedule`]: the CPU that must look at its run queue again. The
//! caller sends it a reschedule IPI, or acts at once if it is the CPU that runs.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crossbeam_utils::atomic::AtomicCell;
use hermit_interface::MAX_CPUS;

use crate::policy::Policy;
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Lock, fence, spin_loop};
use crate::thread::Thread;

/// Scheduling state of one CPU: `L` is a lock around its run queue, a policy `P` over threads `T`.
#[derive(Debug)]
pub struct Cpu<T: 'static, P, L> {
    number: u32,
    run_queue: L,
    /// Number of threads in the run queue, read without the lock. Written only under the lock.
    ready_count: AtomicU32,
    current: AtomicCell<&'static T>,
    /// Whether a thread that is not pinned may be in the run queue, or the current one. Changed only under the lock.
    has_unpinned: AtomicBool,
    /// Whether a time slice runs, at whose end the timer fires.
    has_slice: AtomicBool,
    /// When the current thread was last charged for its run time, in nanoseconds of the caller's clock.
    charged_at: AtomicU64,
    policy: PhantomData<fn() -> P>,
}

/// Entry of the table of CPUs; `None` until the CPU runs.
type CpuSlot<T, P, L> = AtomicCell<Option<&'static Cpu<T, P, L>>>;

/// All CPUs that run, by number, and which of them are idle.
#[derive(Debug)]
pub struct Cpus<T: 'static, P: 'static, L: 'static> {
    slots: [CpuSlot<T, P, L>; MAX_CPUS],
    count: AtomicU32,
    /// A bit per CPU: set while the CPU is idle and no waker has claimed it.
    idle: AtomicU64,
}

/// Which CPU must look at its run queue because a thread has become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reschedule {
    /// No CPU.
    None,
    /// The CPU of this number.
    Cpu(u32),
}

impl<T: Thread, P: Policy<T>, L: Lock<P>> Cpu<T, P, L> {
    /// Creates the state of CPU `number`, which runs `current`. `run_queue` is the lock around an empty policy.
    pub fn new(number: u32, current: &'static T, run_queue: L) -> Self {
        Self {
            number,
            run_queue,
            ready_count: AtomicU32::new(0),
            current: AtomicCell::new(current),
            has_unpinned: AtomicBool::new(true),
            has_slice: AtomicBool::new(false),
            charged_at: AtomicU64::new(0),
            policy: PhantomData,
        }
    }

    /// Number of this CPU.
    #[inline]
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// The thread that this CPU runs. Exact on the CPU itself; on other CPUs a guess.
    #[inline]
    pub fn current(&self) -> &'static T {
        self.current.load()
    }

    /// Number of threads in the run queue.
    #[inline]
    pub fn ready_count(&self) -> u32 {
        self.ready_count.load(Relaxed)
    }

    /// Updates the number of threads in the run queue. Called only with the run queue locked, so load and store need
    /// not be one operation.
    fn update_count(&self, change: impl FnOnce(u32) -> u32) {
        self.ready_count.store(change(self.ready_count.load(Relaxed)), Relaxed);
    }

    /// Makes `next` the current thread.
    #[inline]
    fn set_current(&self, next: &'static T) -> &'static T {
        next.entity().set_cpu(self.number);
        self.current.store(next);
        next
    }

    /// Charges `current` for the time since the last call, if the policy accounts for run time.
    fn charge(&self, policy: &mut P, current: &'static T, now: impl FnOnce() -> u64) {
        if P::ACCOUNTS {
            let now = now();
            let before = self.charged_at.swap(now, Relaxed);
            policy.charge(current, now.saturating_sub(before));
        }
    }

    /// Yields: requeues `current`, which must not be the idle thread, behind the threads of its rank. Returns the
    /// thread to switch to, or `None` if `current` keeps the CPU.
    #[inline]
    pub fn yield_now(&self, current: &'static T, now: impl FnOnce() -> u64) -> Option<&'static T> {
        if self.ready_count() == 0 {
            return None;
        }
        self.run_queue.with(|policy| {
            self.charge(policy, current, now);
            Some(self.set_current(policy.yield_to_next(current)?))
        })
    }

    /// Preempts the current thread, which must not be the idle thread, because its slice is over or because a thread
    /// that preempts it may be ready. Returns the thread to switch to, or `None` if the current thread keeps the CPU.
    pub fn preempt(&self, slice_over: bool, now: impl FnOnce() -> u64) -> Option<&'static T> {
        let current = self.current();
        self.run_queue.with(|policy| {
            self.charge(policy, current, now);
            let next =
                if slice_over { policy.pick_after_slice(current) } else { policy.pick_preempting(current) }?;
            policy.requeue(current);
            Some(self.set_current(next))
        })
    }

    /// Picks the next thread because the current one blocks. Returns the thread to switch to, or `None` if the run
    /// queue is empty.
    #[inline]
    pub fn pick_next(&self, now: impl FnOnce() -> u64) -> Option<&'static T> {
        if self.ready_count() == 0 && !P::ACCOUNTS {
            return None;
        }
        let current = self.current();
        self.run_queue.with(|policy| {
            self.charge(policy, current, now);
            let next = policy.pick_next()?;
            self.update_count(|count| count - 1);
            Some(self.set_current(next))
        })
    }

    /// Makes the idle thread the current one, because the run queue is empty.
    pub fn switch_to_idle(&self, idle: &'static T) -> &'static T {
        self.set_current(idle)
    }

    /// Whether a time slice must be started: a thread is ready, and no slice runs.
    #[inline]
    pub fn needs_slice(&self) -> bool {
        P::SLICE.is_some() && self.ready_count() > 0 && !self.has_slice.load(Relaxed)
    }

    /// Records whether a time slice runs.
    pub fn set_slice(&self, running: bool) {
        self.has_slice.store(running, Relaxed);
    }

    /// Ends the time slice, which is over, unless a thread is ready. Returns whether it has ended.
    pub fn try_end_slice(&self) -> bool {
        // Under the lock: a thread is either counted here, or enqueued after the end, which has the CPU rescheduled.
        self.run_queue.with(|_| {
            let ended = self.ready_count() == 0;
            if ended {
                self.set_slice(false);
            }
            ended
        })
    }

    /// Adds a thread to the run queue. Returns whether the CPU must be rescheduled: the thread preempts the current
    /// one, or a slice must be started.
    #[inline]
    fn enqueue(&self, thread: &'static T) -> bool {
        self.run_queue.with(|policy| {
            policy.enqueue(thread);
            self.update_count(|count| count + 1);
            if !thread.entity().is_pinned() {
                self.has_unpinned.store(true, Relaxed);
            }
            (P::SLICE.is_some() && !self.has_slice.load(Relaxed)) || policy.preempts(thread, self.current())
        })
    }

    /// Makes a stolen thread the current one.
    fn adopt(&self, stolen: &'static T) -> &'static T {
        self.run_queue.with(|_| {
            self.has_unpinned.store(true, Relaxed);
            self.set_current(stolen)
        })
    }

    /// Whether the run queue may have a thread that is not pinned. Costs the same for any number of pinned threads.
    fn may_have_stealable(&self) -> bool {
        self.ready_count() > 0 && self.has_unpinned.load(Relaxed)
    }

    /// Finds the first thread in the run queue that is not pinned. If there is none, and the current thread is pinned,
    /// the queue is not searched again until that changes.
    fn find_unpinned(&self, policy: &P, is_wanted: impl Fn(&&'static T) -> bool) -> Option<&'static T> {
        let mut unpinned = policy.iter().filter(|thread| !thread.entity().is_pinned()).peekable();
        if unpinned.peek().is_none() && self.current().entity().is_pinned() {
            self.has_unpinned.store(false, Relaxed);
        }
        unpinned.find(is_wanted)
    }

    /// Takes a thread that another CPU can run at once: not pinned, and no longer using its stack.
    fn steal(&self) -> Option<&'static T> {
        if !self.may_have_stealable() {
            return None;
        }
        self.run_queue.with(|policy| {
            let thread = self.find_unpinned(policy, |thread| !thread.is_running())?;
            policy.dequeue(thread);
            self.update_count(|count| count - 1);
            Some(thread)
        })
    }

    /// Whether the run queue has a thread that another CPU can run, at once or when this CPU has switched away from it.
    fn has_stealable(&self) -> bool {
        self.may_have_stealable()
            && self.run_queue.with(|policy| self.find_unpinned(policy, |_| true).is_some())
    }
}

impl<T, P, L> Default for Cpus<T, P, L> {
    fn default() -> Self {
        Self {
            slots: [const { AtomicCell::new(None) }; MAX_CPUS],
            count: AtomicU32::new(0),
            idle: AtomicU64::new(0),
        }
    }
}

impl<T, P, L> Cpus<T, P, L> {
    /// Creates a table without CPUs.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        Self {
            slots: [const { AtomicCell::new(None) }; MAX_CPUS],
            count: AtomicU32::new(0),
            idle: AtomicU64::new(0),
        }
    }

    /// Number of CPUs that run.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count.load(Relaxed)
    }

    /// The CPU of this number; `None` if it does not run.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&'static Cpu<T, P, L>> {
        self.slots.get(number as usize)?.load()
    }

    /// Whether a CPU is idle and unclaimed.
    #[inline]
    pub fn is_idle(&self, number: u32) -> bool {
        self.idle.load(Relaxed) & bit(number) != 0
    }

    /// Marks a CPU as busy.
    pub fn leave_idle(&self, number: u32) {
        self.idle.fetch_and(!bit(number), SeqCst);
    }
}

const fn bit(number: u32) -> u64 {
    1 << (number % 64)
}

impl<T: Thread, P: Policy<T>, L: Lock<P>> Cpus<T, P, L> {
    /// Adds a CPU, which runs from now on. A number of [`MAX_CPUS`] or more is ignored.
    pub fn add_cpu(&self, cpu: &'static Cpu<T, P, L>) {
        if let Some(slot) = self.slots.get(cpu.number as usize) {
            slot.store(Some(cpu));
            self.count.fetch_add(1, Relaxed);
        }
    }

    /// Makes a blocked or new thread ready: enqueues it on an idle CPU if it may migrate and one is idle, else on its
    /// own CPU.
    #[inline]
    pub fn make_ready(&self, thread: &'static T) -> Reschedule {
        let entity = thread.entity();
        let (home, pinned) = (entity.cpu(), entity.is_pinned());
        if self.count() == 1 {
            // If this CPU is idle, it is inside the interrupt that wakes the thread, and looks at its run queue
            // afterwards.
            let must_reschedule = self.get(home).is_some_and(|cpu| cpu.enqueue(thread));
            return if must_reschedule { Reschedule::Cpu(home) } else { Reschedule::None };
        }
        // A thread that still uses its stack cannot migrate.
        let fixed = pinned || thread.is_running();
        let claimed = if fixed { None } else { self.claim_idle(home) };
        let number = claimed.unwrap_or(home);
        let Some(cpu) = self.get(number) else { return Reschedule::None };
        let must_reschedule = cpu.enqueue(thread);
        if claimed.is_some() {
            return Reschedule::Cpu(number);
        }
        if must_reschedule {
            if self.is_idle(number) {
                self.leave_idle(number);
            }
            return Reschedule::Cpu(number);
        }
        self.reschedule_idle(home, pinned)
    }

    /// Unparks a thread: makes it ready if it is parked, else its next park returns at once.
    #[inline]
    pub fn wake(&self, thread: &'static T) -> Reschedule {
        if thread.entity().unpark() { self.make_ready(thread) } else { Reschedule::None }
    }

    /// Claims an idle CPU: `home` if that is idle, else the next one by number. A claimed CPU cannot be claimed again
    /// until it has looked at the run queues.
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

    /// Claims this CPU; `false` if it is busy or claimed.
    #[inline]
    fn claim(&self, number: u32) -> bool {
        self.is_idle(number) && self.idle.fetch_and(!bit(number), SeqCst) & bit(number) != 0
    }

    /// Claims an idle CPU for a thread that was enqueued on CPU `home` while that was busy.
    ///
    /// `home` or another CPU may have become idle at the same time without having seen the thread; and if the thread
    /// still uses its stack, its CPU may be about to switch to another thread.
    #[inline]
    fn reschedule_idle(&self, home: u32, pinned: bool) -> Reschedule {
        if self.count() > 1 {
            // Either the bit is seen here, or `pick_next_or_idle` sees the thread.
            fence(SeqCst);
        }
        let claimed = if pinned { self.claim(home).then_some(home) } else { self.claim_idle(home) };
        claimed.map_or(Reschedule::None, Reschedule::Cpu)
    }

    /// Claims an idle CPU that can steal from the run queue of `cpu`, a busy one, if there is something to steal.
    pub fn reschedule_stealer(&self, cpu: &Cpu<T, P, L>) -> Reschedule {
        if self.count() == 1 || !cpu.has_stealable() {
            return Reschedule::None;
        }
        self.reschedule_idle(cpu.number, false)
    }

    /// Picks the next thread of a CPU without a current one: from its own run queue, else stolen from another CPU.
    /// With `None` the CPU is marked idle, and the next thread that it could run reschedules it.
    pub fn pick_next_or_idle(&self, cpu: &Cpu<T, P, L>, now: impl Fn() -> u64) -> Option<&'static T> {
        loop {
            let stolen = || self.others(cpu).find_map(Cpu::steal).map(|thread| cpu.adopt(thread));
            if let Some(next) = cpu.pick_next(&now).or_else(stolen) {
                // The CPU may have been rescheduled without having been claimed: then its idle bit is still set.
                self.claim(cpu.number);
                return Some(next);
            }
            self.idle.fetch_or(bit(cpu.number), SeqCst);
            // A thread that was enqueued before the bit was set has rescheduled no CPU: either it is seen here, or
            // `reschedule_idle` sees the bit.
            fence(SeqCst);
            let has_work = cpu.ready_count() > 0 || self.others(cpu).any(Cpu::has_stealable);
            // A waker that has claimed this CPU in the meantime has another thread for it, and reschedules it.
            if !has_work || !self.claim(cpu.number) {
                return None;
            }
            spin_loop();
        }
    }

    /// The other CPUs, in the order of their numbers from the next one on.
    fn others(&self, cpu: &Cpu<T, P, L>) -> impl Iterator<Item = &'static Cpu<T, P, L>> {
        let (count, own) = (self.number_limit(), cpu.number as usize);
        (1..count).filter_map(move |offset| self.slots.get((own + offset) % count)?.load())
    }

    /// Highest number of a CPU, plus one.
    fn number_limit(&self) -> usize {
        // CPUs are numbered without gaps, but may be added in any order.
        let count = self.count() as usize;
        if self.slots.get(count.saturating_sub(1)).is_some_and(|last| last.load().is_some()) {
            count
        } else {
            self.slots.len()
        }
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
