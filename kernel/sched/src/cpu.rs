//! The run queue of a CPU, and the operations that only this CPU does: picking the next thread, preemption,
//! time slices.
//!
//! The policy `P` decides which thread runs next. The lock `L` protects it, since other CPUs enqueue threads
//! into this run queue and steal threads from it. The facts that hot paths need, such as the number of ready
//! threads and the `flags`, are atomics outside the lock: they are written with the lock held and read
//! without it. So a CPU with an empty run queue switches to its idle thread without taking the lock.
//!
//! A time slice is started only when a thread waits for the CPU, so a thread that runs alone is never
//! interrupted. The fair policy accounts for run time only while threads compute. To notice that, the CPU
//! runs a *probe* from time to time: a short slice that tests if the current thread runs for long. A *trial*
//! is a short slice, too. It tests if a thread that was placed on the CPU of its waker has to wait there
//! (module `trial`).

use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;

use crossbeam_utils::CachePadded;
use crossbeam_utils::atomic::AtomicCell;
use hermit_base::bits::bit;
use hermit_base::lock::Lock;
use hermit_base::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64};

use crate::list::same;
use crate::policy::Policy;
use crate::run_time::RunTime;
use crate::slices::Slices;
use crate::thread::Thread;
use crate::trial::{MIN_TRIAL_PLACED, TRIAL_NS, Trial};

/// Scheduling state of one CPU: `L` is a lock around its run queue, a policy `P` over threads `T`.
#[derive(Debug)]
pub struct Cpu<T: 'static, P, L> {
    number: u32,
    pub(crate) run_queue: L,
    /// Number of threads in the run queue, read without the lock. Written only under the lock.
    ready_count: AtomicU32,
    current: AtomicCell<&'static T>,
    /// Bits of [`flags`], changed only under the lock.
    flags: AtomicU8,
    /// True if the CPU runs its idle thread, or is about to. Cleared only under the lock.
    runs_idle: AtomicBool,
    run_time: RunTime<T>,
    slices: Slices,
    trial: Trial<T>,
    /// Virtual time of the policy at the last charge. Written with the lock held. Other CPUs read it when
    /// they move a thread, to keep the thread's distance from the virtual time.
    virtual_time: AtomicU64,
    policy: PhantomData<fn() -> P>,
}

/// Bits of a CPU's state. The fast path of a wake-up tests all of them at once.
mod flags {
    /// The CPU is in the set of [`Cpus`](crate::cpus::Cpus) from which others steal.
    pub(super) const LISTED: u8 = 1;
    /// A time slice runs, and the timer fires at its end. Always set if the policy has no slices.
    pub(super) const HAS_SLICE: u8 = 2;
    /// The policy accounts for run time.
    pub(super) const ACCOUNTING: u8 = 4;
    /// Flags of a CPU for which an enqueued thread requires no further action.
    pub(super) const CALM: u8 = LISTED | HAS_SLICE;
}

/// A set of CPUs by number, in a cache line of its own.
pub(crate) type CpuMask = CachePadded<AtomicU64>;

impl<T: Thread, P: Policy<T>, L: Lock<P>> Cpu<T, P, L> {
    /// Creates the state of CPU `number`, which runs `current`. `run_queue` is the lock around an empty
    /// policy.
    pub fn new(number: u32, current: &'static T, run_queue: L) -> Self {
        Self {
            number,
            run_queue,
            ready_count: AtomicU32::new(0),
            current: AtomicCell::new(current),
            flags: AtomicU8::new(if P::SLICE.is_some() { 0 } else { flags::HAS_SLICE }),
            runs_idle: AtomicBool::new(false),
            run_time: RunTime::new(),
            slices: Slices::new(),
            trial: Trial::new(),
            virtual_time: AtomicU64::new(0),
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

    /// Updates the number of threads in the run queue. Called only with the run queue locked, so load and
    /// store need not be one operation.
    fn update_count(&self, change: impl FnOnce(u32) -> u32) {
        self.ready_count.store(change(self.ready_count.load(Relaxed)), Relaxed);
    }

    /// Makes `next`, a thread of this CPU, the current one.
    #[inline]
    fn set_current(&self, next: &'static T) -> &'static T {
        self.current.store(next);
        if P::LONG_RUN.is_some() {
            self.run_time.count_switch();
        }
        next
    }

    /// Charges the current thread for its run time, if the policy accounts for that now.
    #[inline]
    fn charge(&self, policy: &mut P, now: impl FnOnce() -> u64) {
        if P::LONG_RUN.is_some() && policy.is_accounting() {
            self.charge_slow(policy, now);
        }
    }

    #[cold]
    #[inline(never)]
    fn charge_slow(&self, policy: &mut P, now: impl FnOnce() -> u64) {
        policy.charge(self.current(), self.run_time.take(now()));
        self.virtual_time.store(policy.virtual_time(), Relaxed);
    }

    /// Charges as [`Self::charge`] does, for a current thread that blocks or yields.
    #[inline]
    fn charge_last(&self, policy: &mut P, now: impl FnOnce() -> u64) {
        if P::LONG_RUN.is_some() && policy.is_accounting() {
            self.charge_slow(policy, now);
            policy.end_run(self.current());
        }
    }

    /// Charges as [`Self::charge`] does. If the policy does not account for run time yet, makes it begin if
    /// the current thread `computes` or has run for long. Called by this CPU, with the run queue locked.
    fn observe(&self, policy: &mut P, computes: bool, now: impl FnOnce() -> u64) {
        let Some(long_run) = P::LONG_RUN else { return };
        if policy.is_accounting() {
            return self.charge_slow(policy, now);
        }
        let now = now();
        let ran_ns = self.run_time.at_least(now);
        if computes || ran_ns >= long_run {
            self.run_time.stamp(now);
            policy.begin_accounting(now, self.current(), ran_ns);
            self.virtual_time.store(policy.virtual_time(), Relaxed);
            self.set_flag(flags::ACCOUNTING, policy.is_accounting());
        }
    }

    /// Tests if the current thread computes. Called before an interrupt of this CPU makes threads ready. The
    /// current thread must not be the idle thread.
    pub fn observe_current(&self, now: impl FnOnce() -> u64) {
        if P::LONG_RUN.is_some() {
            self.run_queue.with(|policy| self.observe(policy, false, now));
        }
    }

    /// Records that the current thread runs since the time `now`, in nanoseconds.
    pub fn stamp(&self, now: u64) {
        if P::LONG_RUN.is_some() {
            self.run_time.stamp(now);
        }
    }

    /// Virtual time of the policy at the time `now`, both in nanoseconds. On other CPUs it is a guess. `None`
    /// if the policy does not account for run time.
    pub(crate) fn virtual_time(&self, now: u64) -> Option<u64> {
        if !self.has_flag(flags::ACCOUNTING) {
            return None;
        }
        // A thread that computes alone is not charged until another thread becomes ready. But it advances the
        // virtual time, so its run time since the last charge is added here.
        let is_alone = self.ready_count() == 0 && !self.runs_idle.load(Relaxed);
        let runtime = if is_alone { self.current().entity().accounted_runtime() } else { None };
        let of_current = runtime.map_or(0, |runtime| runtime.saturating_add(self.run_time.since_stamp(now)));
        Some(self.virtual_time.load(Relaxed).max(of_current))
    }

    /// Gives a new thread of this CPU the virtual runtime of the current thread, which is its creator.
    pub(crate) fn hand_down_runtime(&self, thread: &'static T, now: impl FnOnce() -> u64) {
        if self.has_flag(flags::ACCOUNTING) {
            self.run_queue.with(|policy| self.charge(policy, now));
        }
        thread.entity().inherit(self.current().entity());
    }

    fn has_flag(&self, flag: u8) -> bool {
        self.flags.load(Relaxed) & flag != 0
    }

    /// Sets or clears a bit of [`flags`], with the lock held.
    fn set_flag(&self, flag: u8, value: bool) {
        let others = self.flags.load(Relaxed) & !flag;
        self.flags.store(if value { others | flag } else { others }, Relaxed);
    }

    /// Yields: requeues `current`, which must not be the idle thread, after the threads of its rank. Returns
    /// the thread to switch to, or `None` if `current` keeps the CPU, for example because no thread is ready.
    /// The caller can check [`Self::ready_count`] first, which takes no lock.
    #[inline]
    pub fn yield_now(&self, current: &'static T, now: impl FnOnce() -> u64) -> Option<&'static T> {
        self.run_queue.with(|policy| {
            let next = policy.yield_to_equal(current).or_else(|| self.yield_slow(policy, current, now))?;
            Some(self.set_current(next))
        })
    }

    /// Slow path of [`Self::yield_now`]: yields to a thread of another priority, or while run time is
    /// accounted. The lock is held.
    #[cold]
    #[inline(never)]
    fn yield_slow(
        &self,
        policy: &mut P,
        current: &'static T,
        now: impl FnOnce() -> u64,
    ) -> Option<&'static T> {
        self.charge_last(policy, now);
        let next = policy.pick_on_yield(current)?;
        policy.requeue(current);
        Some(next)
    }

    /// Preempts the current thread, which must not be the idle thread, because its slice is over, or because
    /// another thread that may preempt it has become ready. Returns the thread to switch to, or `None` if the
    /// current thread keeps the CPU.
    pub fn preempt(&self, slice_over: bool, now: impl FnOnce() -> u64) -> Option<&'static T> {
        let current = self.current();
        self.run_queue.with(|policy| {
            let was_probe = self.run_time.is_probe();
            let computes = slice_over && self.run_time.end_probe(current);
            self.observe(policy, computes, now);
            if slice_over {
                self.set_flag(flags::HAS_SLICE, false);
            }
            let next = if !slice_over || self.begins_probe(policy, was_probe) {
                policy.pick_preempting(current)?
            } else {
                self.end_slice(policy);
                policy.pick_after_slice(current)?
            };
            policy.requeue(current);
            Some(self.set_current(next))
        })
    }

    /// Makes the beginning slice a probe, if threads are ready, run time is not accounted for, and the last
    /// slice was not a probe. Returns true if the slice is a probe. Called with the lock held.
    fn begins_probe(&self, policy: &P, was_probe: bool) -> bool {
        let is_wanted = P::LONG_RUN.is_some() && !policy.is_accounting() && self.ready_count() > 0;
        let begins = is_wanted && !was_probe;
        if begins {
            self.run_time.begin_probe(self.current());
        }
        begins
    }

    /// Length of the beginning time slice in nanoseconds, which depends on whether it is a trial. `None` if
    /// the policy has no slices.
    pub(crate) fn slice_ns(&self, is_trial: bool) -> Option<u64> {
        let Some(long_run) = P::LONG_RUN else { return P::SLICE };
        let length = if is_trial {
            TRIAL_NS
        } else if self.run_time.is_probe() {
            long_run
        } else {
            P::SLICE?
        };
        Some(self.slices.stretched(length))
    }

    /// Records that the scheduler has taken `cost_ns` nanoseconds to end a slice.
    pub fn record_slice_cost(&self, cost_ns: u64) {
        self.slices.record_cost(cost_ns);
    }

    /// Counts a slice at whose end threads are ready. Returns true if a thread should move to a CPU that has
    /// one ready thread fewer.
    pub(crate) fn is_turn_to_rotate(&self) -> bool {
        self.slices.is_turn_to_rotate()
    }

    /// Picks the next thread because the current one blocks. Returns the thread to switch to, or `None` if
    /// the run queue is empty.
    #[inline]
    pub fn pick_next(&self, now: impl FnOnce() -> u64) -> Option<&'static T> {
        self.pick(now, || ())
    }

    /// Does what [`Self::pick_next`] does. Calls `picked` under the lock if a thread was taken from the run
    /// queue.
    #[inline]
    fn pick(&self, now: impl FnOnce() -> u64, picked: impl FnOnce()) -> Option<&'static T> {
        if self.ready_count() == 0 {
            return None;
        }
        self.run_queue.with(|policy| {
            self.charge_last(policy, now);
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

    /// Returns true if a time slice must be started: a thread is ready, and no slice runs.
    #[inline]
    pub fn needs_slice(&self) -> bool {
        P::SLICE.is_some() && self.ready_count() > 0 && !self.has_flag(flags::HAS_SLICE)
    }

    /// Starts a time slice, and returns its length in nanoseconds; `None` if the policy has no slices.
    pub fn start_slice(&self) -> Option<u64> {
        let beside = self.trial.beside(self.current());
        let is_trial = self.run_queue.with(|policy| {
            self.set_flag(flags::HAS_SLICE, true);
            beside.is_some_and(|beside| self.has_only(policy, beside))
        });
        if is_trial {
            self.trial.begin();
        }
        self.slice_ns(is_trial)
    }

    /// Called when a slice is over. If the slice was a trial, ends the trial and returns true. If the trial
    /// has shown that the placed thread has to wait for the current thread, other CPUs may steal it, and the
    /// next threads that the current thread wakes are placed on other CPUs.
    pub fn end_trial(&self) -> bool {
        let Some(placed) = self.trial.end() else { return false };
        let has_waited = placed < MIN_TRIAL_PLACED && self.ready_count() > 0;
        if has_waited {
            self.trial.separate(self.current());
        }
        self.run_queue.with(|policy| {
            // Ends the slice for the policy. Otherwise accounting would continue although two threads only
            // wake each other.
            if !has_waited {
                self.end_slice(policy);
            }
            self.set_flag(flags::HAS_SLICE, false);
        });
        true
    }

    /// Returns true if a thread can be placed on this CPU next to the current thread: no other thread is
    /// ready, and a trial runs or can begin.
    pub(crate) fn is_free_beside(&self) -> bool {
        self.ready_count() == 0 && (!self.has_flag(flags::HAS_SLICE) || self.trial.runs())
    }

    /// Returns true if the only ready thread was placed on this CPU by its waker, and the waker still runs.
    pub(crate) fn has_only_beside(&self) -> bool {
        let beside = if self.ready_count() == 1 { self.trial.beside(self.current()) } else { None };
        beside.is_some_and(|beside| self.run_queue.with(|policy| self.has_only(policy, beside)))
    }

    /// Returns true if `beside` is the only ready thread.
    fn has_only(&self, policy: &P, beside: &'static T) -> bool {
        self.ready_count() == 1 && policy.iter().any(|(_, thread)| same(beside, thread))
    }

    /// Enqueues, as [`Self::enqueue`] does, a thread that the current thread wakes. The woken thread moves to
    /// this CPU.
    pub(crate) fn enqueue_beside(
        &self,
        thread: &'static T,
        loaded: &CpuMask,
        now: impl FnOnce() -> u64,
    ) -> bool {
        thread.entity().set_cpu(self.number, self.current().entity().runtime.load(Relaxed));
        self.trial.place(thread);
        self.enqueue(thread, loaded, now)
    }

    /// Notifies the policy that a slice is over. The lock is held.
    fn end_slice(&self, policy: &mut P) {
        policy.end_slice();
        self.set_flag(flags::ACCOUNTING, policy.is_accounting());
    }

    /// Called when the time slice is over. Ends the slice and returns true, unless a thread is ready and the
    /// CPU is not idle. An idle CPU picks its next thread under the lock, and then starts a slice if needed.
    pub fn try_end_slice(&self, is_idle: bool, now: impl FnOnce() -> u64) -> bool {
        // Under the lock, so that no thread is missed: a thread is either counted here, or enqueued after the
        // end of the slice, which reschedules the CPU.
        self.run_queue.with(|policy| {
            let ended = is_idle || self.ready_count() == 0;
            if ended {
                self.charge(policy, now);
                self.end_idle_slice(policy);
            }
            ended
        })
    }

    /// Ends a slice or a trial without picking a next thread. The lock is held.
    fn end_idle_slice(&self, policy: &mut P) {
        if self.trial.end().is_none() {
            self.run_time.end_probe(self.current());
        }
        self.end_slice(policy);
        self.set_flag(flags::HAS_SLICE, false);
    }

    /// Adds a thread to the run queue. Returns true if the CPU must be rescheduled, because the thread
    /// preempts the current thread or because a slice must be started.
    #[inline(always)]
    pub(crate) fn enqueue(&self, thread: &'static T, loaded: &CpuMask, now: impl FnOnce() -> u64) -> bool {
        self.run_queue.with(|policy| {
            policy.enqueue(thread);
            self.update_count(|count| count + 1);
            if self.flags.load(Relaxed) != flags::CALM {
                return self.has_enqueued(policy, thread, loaded, now);
            }
            policy.preempts(thread, self.current())
        })
    }

    /// Slow path of [`Self::enqueue`], after the thread was added, for a CPU whose flags are not
    /// [`flags::CALM`].
    #[cold]
    #[inline(never)]
    fn has_enqueued(
        &self,
        policy: &mut P,
        thread: &'static T,
        loaded: &CpuMask,
        now: impl FnOnce() -> u64,
    ) -> bool {
        if !self.is_listed() {
            self.list_if_loaded(thread, loaded);
        }
        let preempts = if policy.is_accounting() {
            self.charge_slow(policy, now);
            policy.place(thread, self.current())
        } else {
            policy.preempts(thread, self.current())
        };
        preempts || !self.has_flag(flags::HAS_SLICE)
    }

    /// Adds this CPU to `loaded`, with the lock held, after `enqueued` was added to the run queue. An idle
    /// CPU is not added here. It will check its run queue anyway, and is added if threads are left when it
    /// runs one of them.
    fn list_if_loaded(&self, enqueued: &'static T, loaded: &CpuMask) {
        // Even if the enqueued thread is pinned, an unpinned current thread may yield to it, and can then be
        // stolen.
        let is_stealable = !enqueued.entity().is_pinned() || !self.current().entity().is_pinned();
        if is_stealable && !self.runs_idle.load(Relaxed) {
            self.list(loaded);
        }
    }

    /// Adds this CPU to `loaded`, with the lock held.
    fn list(&self, loaded: &CpuMask) {
        self.set_flag(flags::LISTED, true);
        loaded.fetch_or(bit(self.number), Relaxed);
    }

    /// Returns true if this CPU is in the set of CPUs from which others steal.
    pub(crate) fn is_listed(&self) -> bool {
        self.has_flag(flags::LISTED)
    }

    /// Picks the next thread of an idle CPU, as [`Self::pick_next`] does.
    pub(crate) fn pick_from_idle(&self, now: impl FnOnce() -> u64, loaded: &CpuMask) -> Option<&'static T> {
        self.pick(now, || self.leave_idle(loaded))
    }

    /// Makes a stolen thread the current one. `runtime` is its virtual runtime on this CPU.
    pub(crate) fn adopt(
        &self,
        stolen: &'static T,
        runtime: u64,
        now: impl FnOnce() -> u64,
        loaded: &CpuMask,
    ) -> &'static T {
        self.run_queue.with(|policy| {
            self.charge(policy, now);
            self.leave_idle(loaded);
            stolen.entity().set_cpu(self.number, runtime);
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

    /// Finds the first thread in the run queue that is not pinned. If there is none, and yielding cannot add
    /// one, removes the CPU from `loaded`, so that other CPUs do not search this run queue again until a
    /// thread is enqueued.
    fn find_unpinned(
        &self,
        policy: &P,
        loaded: &CpuMask,
        is_wanted: impl Fn(&'static T) -> bool,
    ) -> Option<(usize, &'static T)> {
        let mut unpinned = policy.iter().filter(|(_, thread)| !thread.entity().is_pinned()).peekable();
        let is_fixed = self.ready_count() == 0 || self.current().entity().is_pinned();
        if unpinned.peek().is_none() && is_fixed {
            self.set_flag(flags::LISTED, false);
            loaded.fetch_and(!bit(self.number), Relaxed);
        }
        unpinned.find(|(_, thread)| is_wanted(thread))
    }

    /// Takes a thread that another CPU can run at once: one that is not pinned and no longer uses its stack.
    pub(crate) fn steal(&self, loaded: &CpuMask) -> Option<&'static T> {
        self.run_queue.with(|policy| self.take_stealable(policy, loaded))
    }

    /// Takes a thread as [`Self::steal`] does. This CPU itself calls it, to give the thread to another CPU.
    /// Also brings the virtual time up to date.
    pub(crate) fn give_away(&self, loaded: &CpuMask, now: impl FnOnce() -> u64) -> Option<&'static T> {
        self.run_queue.with(|policy| {
            self.charge(policy, now);
            self.take_stealable(policy, loaded)
        })
    }

    fn take_stealable(&self, policy: &mut P, loaded: &CpuMask) -> Option<&'static T> {
        let (list, thread) = self.find_unpinned(policy, loaded, |thread| !thread.is_running())?;
        policy.dequeue(list, thread);
        self.update_count(|count| count - 1);
        Some(thread)
    }

    /// Returns true if the run queue has a thread that another CPU can run, either at once or when this CPU
    /// has switched away from the thread.
    pub(crate) fn has_stealable(&self, loaded: &CpuMask) -> bool {
        self.run_queue.with(|policy| self.find_unpinned(policy, loaded, |_| true).is_some())
    }
}
