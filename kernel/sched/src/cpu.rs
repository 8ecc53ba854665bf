//! The run queue of each CPU, and load balancing between CPUs: placement of woken threads, work stealing, idle CPUs.
//!
//! Methods that make a thread ready return a [`Reschedule`]: the CPU that must look at its run queue again. The
//! caller sends it a reschedule IPI, or acts at once if it is the CPU that runs.

use core::marker::PhantomData;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crossbeam_utils::CachePadded;
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
    /// Whether this CPU is in [`Cpus::loaded`]. Both are changed only under the lock.
    is_listed: AtomicBool,
    /// Whether the CPU runs its idle thread, or is about to. Cleared only under the lock.
    runs_idle: AtomicBool,
    /// Whether a time slice runs, at whose end the timer fires.
    has_slice: AtomicBool,
    /// When the current thread was last charged for its run time, in nanoseconds of the caller's clock.
    charged_at: AtomicU64,
    policy: PhantomData<fn() -> P>,
}

/// Entry of the table of CPUs; `None` until the CPU runs.
type CpuSlot<T, P, L> = AtomicCell<Option<&'static Cpu<T, P, L>>>;

/// A set of CPUs by number, in a cache line of its own.
type CpuMask = CachePadded<AtomicU64>;

/// All CPUs that run, by number, and which of them are idle or have threads for others.
#[derive(Debug)]
pub struct Cpus<T: 'static, P: 'static, L: 'static> {
    slots: [CpuSlot<T, P, L>; MAX_CPUS],
    count: AtomicU32,
    /// CPUs that are idle and that no waker has claimed.
    idle: CpuMask,
    /// CPUs from which others may steal: all that run a thread while others are ready, unless all of these are pinned.
    /// A CPU stays in the set until another one finds nothing to steal, so few switches of threads change it.
    loaded: CpuMask,
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
            is_listed: AtomicBool::new(false),
            runs_idle: AtomicBool::new(false),
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
        self.pick(now, || ())
    }

    /// [`Self::pick_next`]; calls `picked` under the lock when a thread was taken from the run queue.
    #[inline]
    fn pick(&self, now: impl FnOnce() -> u64, picked: impl FnOnce()) -> Option<&'static T> {
        if self.ready_count() == 0 && !P::ACCOUNTS {
            return None;
        }
        let current = self.current();
        self.run_queue.with(|policy| {
            self.charge(policy, current, now);
            let next = policy.pick_next()?;
            self.update_count(|count| count - 1);
            picked();
            Some(self.set_current(next))
        })
    }

    /// Makes the idle thread the current one, because the run queue is empty.
    pub fn switch_to_idle(&self, idle: &'static T) -> &'static T {
        self.runs_idle.store(true, Relaxed);
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
    fn enqueue(&self, thread: &'static T, loaded: &CpuMask) -> bool {
        self.run_queue.with(|policy| {
            policy.enqueue(thread);
            self.update_count(|count| count + 1);
            if !self.is_listed.load(Relaxed) {
                self.list_if_loaded(thread, loaded);
            }
            (P::SLICE.is_some() && !self.has_slice.load(Relaxed)) || policy.preempts(thread, self.current())
        })
    }

    /// Adds this CPU to `loaded`, with the lock held, after `enqueued` was added to the run queue. An idle CPU is not
    /// added: it looks at its run queue anyway, and so is added if threads are left when it runs one of them.
    #[cold]
    fn list_if_loaded(&self, enqueued: &'static T, loaded: &CpuMask) {
        // A current thread that is not pinned may yield to a pinned one, and is then in the run queue.
        let is_stealable = !enqueued.entity().is_pinned() || !self.current().entity().is_pinned();
        if is_stealable && !self.runs_idle.load(Relaxed) {
            self.list(loaded);
        }
    }

    /// Adds this CPU to `loaded`, with the lock held.
    fn list(&self, loaded: &CpuMask) {
        self.is_listed.store(true, Relaxed);
        loaded.fetch_or(bit(self.number), Relaxed);
    }

    /// Picks the next thread of an idle CPU, as [`Self::pick_next`] does.
    fn pick_from_idle(&self, now: impl FnOnce() -> u64, loaded: &CpuMask) -> Option<&'static T> {
        self.pick(now, || self.leave_idle(loaded))
    }

    /// Makes a stolen thread the current one.
    fn adopt(&self, stolen: &'static T, loaded: &CpuMask) -> &'static T {
        self.run_queue.with(|_| {
            self.leave_idle(loaded);
            self.set_current(stolen)
        })
    }

    /// Records, with the lock held, that the CPU runs a thread and no longer its idle thread.
    fn leave_idle(&self, loaded: &CpuMask) {
        self.runs_idle.store(false, Relaxed);
        if self.ready_count() > 0 {
            self.list(loaded);
        }
    }

    /// Finds the first thread in the run queue that is not pinned. If there is none, and yielding cannot add one, the
    /// CPU leaves `loaded`, so that the run queue is not searched again until a thread is enqueued.
    fn find_unpinned(
        &self,
        policy: &P,
        loaded: &CpuMask,
        is_wanted: impl Fn(&&'static T) -> bool,
    ) -> Option<&'static T> {
        let mut unpinned = policy.iter().filter(|thread| !thread.entity().is_pinned()).peekable();
        let is_fixed = self.ready_count() == 0 || self.current().entity().is_pinned();
        if unpinned.peek().is_none() && is_fixed {
            self.is_listed.store(false, Relaxed);
            loaded.fetch_and(!bit(self.number), Relaxed);
        }
        unpinned.find(is_wanted)
    }

    /// Takes a thread that another CPU can run at once: not pinned, and no longer using its stack.
    fn steal(&self, loaded: &CpuMask) -> Option<&'static T> {
        self.run_queue.with(|policy| {
            let thread = self.find_unpinned(policy, loaded, |thread| !thread.is_running())?;
            policy.dequeue(thread);
            self.update_count(|count| count - 1);
            Some(thread)
        })
    }

    /// Whether the run queue has a thread that another CPU can run, at once or when this CPU has switched away from it.
    fn has_stealable(&self, loaded: &CpuMask) -> bool {
        self.run_queue.with(|policy| self.find_unpinned(policy, loaded, |_| true).is_some())
    }
}

impl<T, P, L> Default for Cpus<T, P, L> {
    fn default() -> Self {
        Self {
            slots: [const { AtomicCell::new(None) }; MAX_CPUS],
            count: AtomicU32::new(0),
            idle: CpuMask::new(AtomicU64::new(0)),
            loaded: CpuMask::new(AtomicU64::new(0)),
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
            idle: CpuMask::new(AtomicU64::new(0)),
            loaded: CpuMask::new(AtomicU64::new(0)),
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

    /// Marks a CPU as busy, if no waker that has claimed it has done so.
    pub fn leave_idle(&self, number: u32) {
        if self.is_idle(number) {
            self.idle.fetch_and(!bit(number), SeqCst);
        }
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
            let must_reschedule = self.get(home).is_some_and(|cpu| cpu.enqueue(thread, &self.loaded));
            return if must_reschedule { Reschedule::Cpu(home) } else { Reschedule::None };
        }
        // A thread that still uses its stack cannot migrate.
        let fixed = pinned || thread.is_running();
        let claimed = if fixed { None } else { self.claim_idle(home) };
        let number = claimed.unwrap_or(home);
        let Some(cpu) = self.get(number) else { return Reschedule::None };
        let must_reschedule = cpu.enqueue(thread, &self.loaded);
        if claimed.is_some() {
            return Reschedule::Cpu(number);
        }
        if must_reschedule {
            self.leave_idle(number);
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
        let is_loaded = cpu.ready_count() > 0 && cpu.is_listed.load(Relaxed);
        if self.count() == 1 || !is_loaded || !cpu.has_stealable(&self.loaded) {
            return Reschedule::None;
        }
        self.reschedule_idle(cpu.number, false)
    }

    /// Picks the next thread of a CPU without a current one: from its own run queue, else stolen from another CPU. The
    /// caller then calls [`Self::reschedule_stealer`] for the threads that are left. With `None` the CPU is marked
    /// idle, and the next thread that it could run reschedules it.
    pub fn pick_next_or_idle(&self, cpu: &Cpu<T, P, L>, now: impl Fn() -> u64) -> Option<&'static T> {
        let loaded = &self.loaded;
        loop {
            let steal = || self.loaded_others(cpu).find_map(|other| other.steal(loaded));
            let stolen = || steal().map(|thread| cpu.adopt(thread, loaded));
            if let Some(next) = cpu.pick_from_idle(&now, loaded).or_else(stolen) {
                // The CPU may have been rescheduled without having been claimed: then its idle bit is still set.
                self.leave_idle(cpu.number);
                return Some(next);
            }
            self.idle.fetch_or(bit(cpu.number), SeqCst);
            // A thread that was enqueued before the bit was set has rescheduled no CPU: either it is seen here, or
            // `reschedule_idle` sees the bit.
            fence(SeqCst);
            let has_work =
                cpu.ready_count() > 0 || self.loaded_others(cpu).any(|other| other.has_stealable(loaded));
            // A waker that has claimed this CPU in the meantime has another thread for it, and reschedules it.
            if !has_work || !self.claim(cpu.number) {
                return None;
            }
            spin_loop();
        }
    }

    /// The other CPUs in [`Self::loaded`], in the order of their numbers from the next one on.
    fn loaded_others(&self, cpu: &Cpu<T, P, L>) -> impl Iterator<Item = &'static Cpu<T, P, L>> {
        let own = cpu.number;
        let mut left = (self.loaded.load(Relaxed) & !bit(own)).rotate_right(own % 64);
        let offsets = core::iter::from_fn(move || {
            let offset = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(offset)
        });
        offsets.filter_map(move |offset| self.get((own + offset) % 64))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
