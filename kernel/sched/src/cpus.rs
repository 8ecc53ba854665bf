//! All CPUs: placement of woken threads, work stealing, idle CPUs.
//!
//! Each CPU has a run queue of its own, so the common path of a wake-up touches one lock. Balance comes from
//! two mechanisms. When a thread becomes ready, it is *placed*: on an idle CPU if there is one and the thread
//! may migrate, else on its own CPU or on a CPU with fewer ready threads. A CPU that runs out of threads
//! *steals* a thread from another CPU. Two bit masks, with one bit for each CPU, make placing and stealing
//! fast: the set of CPUs that are idle and not yet claimed by a waker, and the set of CPUs that have threads
//! for others.
//!
//! A thread that has just blocked or been preempted still uses its stack until its CPU has switched away from
//! it. Such a thread cannot migrate yet.
//!
//! Methods that make a thread ready return a [`Reschedule`]: the CPU that must look at its run queue again.
//! The caller sends this CPU a reschedule IPI, or calls the scheduler itself if it is the current CPU.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crossbeam_utils::atomic::AtomicCell;
use hermit_base::bits::bit;
use hermit_base::const_fn;
use hermit_base::lock::Lock;
use hermit_base::sync::atomic::{AtomicU32, AtomicU64, fence};
use hermit_base::sync::{IS_MODEL, spin_loop};
use hermit_interface::MAX_CPUS;

use crate::cpu::{Cpu, CpuMask};
use crate::policy::Policy;
use crate::thread::{FULL_CREDIT, NO_CREDIT, Thread};
use crate::trial::is_answer;

/// Maximum number of spin-loop pauses after which a CPU checks again for threads that it could not run yet.
/// They take a few microseconds.
const MAX_PAUSES: u32 = if IS_MODEL { 1 } else { 64 };

/// Entry of the table of CPUs; `None` until the CPU runs.
type CpuSlot<T, P, L> = AtomicCell<Option<&'static Cpu<T, P, L>>>;

/// All CPUs that run, by number, and which of them are idle or have threads for others.
#[derive(Debug)]
pub struct Cpus<T: 'static, P: 'static, L: 'static> {
    slots: [CpuSlot<T, P, L>; MAX_CPUS],
    count: AtomicU32,
    /// CPUs that are idle and that no waker has claimed.
    idle: CpuMask,
    /// CPUs from which other CPUs may steal: those that run a thread while other threads are ready, unless
    /// all ready threads are pinned. A CPU stays in the set until another CPU finds nothing to steal there,
    /// so most thread switches do not change the set.
    loaded: CpuMask,
}

/// CPU that must look at its run queue because a thread has become ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reschedule {
    /// No CPU.
    None,
    /// The CPU of this number.
    Cpu(u32),
}

impl Reschedule {
    /// The CPU `number` if it must be rescheduled.
    fn cpu_if(number: u32, must_reschedule: bool) -> Self {
        if must_reschedule { Self::Cpu(number) } else { Self::None }
    }
}

impl<T, P, L> Default for Cpus<T, P, L> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, P, L> Cpus<T, P, L> {
    const_fn! {
        /// Creates a table without CPUs.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                slots: [const { AtomicCell::new(None) }; MAX_CPUS],
                count: AtomicU32::new(0),
                idle: CpuMask::new(AtomicU64::new(0)),
                loaded: CpuMask::new(AtomicU64::new(0)),
            }
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

    /// Returns true if a CPU is idle and unclaimed.
    #[inline]
    pub fn is_idle(&self, number: u32) -> bool {
        self.idle.load(Relaxed) & bit(number) != 0
    }

    /// Marks a CPU as busy, unless a waker has done so by claiming it.
    pub fn leave_idle(&self, number: u32) {
        if self.is_idle(number) {
            self.idle.fetch_and(!bit(number), SeqCst);
        }
    }
}

/// True if another CPU can run the thread at once: it is not pinned, and no longer uses its stack.
fn can_migrate<T: Thread>(thread: &'static T) -> bool {
    !thread.entity().is_pinned() && !thread.is_running()
}

impl<T: Thread, P: Policy<T>, L: Lock<P>> Cpus<T, P, L> {
    /// Adds a CPU, which runs from now on. A number of [`MAX_CPUS`] or more is ignored.
    pub fn add_cpu(&self, cpu: &'static Cpu<T, P, L>) {
        if let Some(slot) = self.slots.get(cpu.number() as usize) {
            slot.store(Some(cpu));
            self.count.fetch_add(1, Relaxed);
        }
    }

    /// Makes a blocked or new thread ready: enqueues it on an idle CPU if it may migrate and one is idle,
    /// else on its own CPU, or on one with fewer ready threads. `now` returns the time of the monotonic clock
    /// in nanoseconds.
    #[inline(always)]
    pub fn make_ready(&self, thread: &'static T, now: impl Fn() -> u64) -> Reschedule {
        if self.count() == 1 {
            self.place_on_first(thread, now)
        } else {
            self.place(thread, thread.entity().cpu(), now)
        }
    }

    /// [`Self::make_ready`] if only the first CPU runs. If this CPU is idle, it handles an interrupt now,
    /// which wakes the thread. It checks its run queue afterwards, so it need not be rescheduled.
    #[inline(always)]
    fn place_on_first(&self, thread: &'static T, now: impl Fn() -> u64) -> Reschedule {
        let must_reschedule = self.slots[0].load().is_some_and(|cpu| cpu.enqueue(thread, &self.loaded, now));
        Reschedule::cpu_if(0, must_reschedule)
    }

    /// [`Self::make_ready`] if several CPUs run. If no CPU is idle, a thread that may migrate is placed on
    /// the CPU `near`, or on a less loaded one.
    #[inline(never)]
    fn place(&self, thread: &'static T, near: u32, now: impl Fn() -> u64) -> Reschedule {
        let entity = thread.entity();
        let (home, can_migrate) = (entity.cpu(), can_migrate(thread));
        let claimed = if can_migrate { self.claim_idle(home) } else { None };
        let number = claimed.unwrap_or_else(|| if can_migrate { self.less_loaded(near, home) } else { home });
        let Some(cpu) = self.get(number) else { return Reschedule::None };
        if number != home {
            entity.set_cpu(number, self.runtime_on(cpu, thread, now()).unwrap_or(FULL_CREDIT));
        }
        if claimed.is_some() {
            cpu.enqueue(thread, &self.loaded, now);
            return Reschedule::Cpu(number);
        }
        self.enqueue_on(cpu, thread, !entity.is_pinned(), now)
    }

    /// Enqueues a thread on a CPU that was not idle. If that CPU need not be rescheduled, claims an idle CPU:
    /// the same CPU, if it has become idle meanwhile, or any CPU, if others `may_steal` the thread.
    fn enqueue_on(
        &self,
        cpu: &Cpu<T, P, L>,
        thread: &'static T,
        may_steal: bool,
        now: impl Fn() -> u64,
    ) -> Reschedule {
        if cpu.enqueue(thread, &self.loaded, now) {
            self.leave_idle(cpu.number());
            return Reschedule::Cpu(cpu.number());
        }
        self.reschedule_idle(cpu.number(), !may_steal)
    }

    /// Makes a new thread ready. `creator` is the CPU of the caller, whose current thread starts the new
    /// thread. The new thread is placed near `creator`, or on the CPU `pinned`, which it never leaves.
    pub fn start(
        &self,
        creator: &Cpu<T, P, L>,
        thread: &'static T,
        pinned: Option<u32>,
        now: impl Fn() -> u64,
    ) -> Reschedule {
        thread.entity().assign_cpu(pinned.unwrap_or(creator.number()), pinned.is_some());
        if pinned.is_none() {
            creator.hand_down_runtime(thread, &now);
        }
        self.make_ready(thread, now)
    }

    /// Unparks a thread. If it is parked, makes it ready. Otherwise its next park returns at once.
    #[inline(always)]
    pub fn wake(&self, thread: &'static T, now: impl Fn() -> u64) -> Reschedule {
        if thread.entity().unpark() { self.make_ready(thread, now) } else { Reschedule::None }
    }

    /// [`Self::wake`] for calls by a thread. `waker` returns the CPU of the caller, whose current thread is
    /// the waker.
    #[inline(always)]
    pub fn wake_from(
        &self,
        waker: impl FnOnce() -> &'static Cpu<T, P, L>,
        thread: &'static T,
        now: impl Fn() -> u64,
    ) -> Reschedule {
        if !thread.entity().unpark() {
            return Reschedule::None;
        }
        if self.count() == 1 {
            self.place_on_first(thread, now)
        } else {
            self.place_from(waker(), thread, now)
        }
    }

    /// [`Self::place`] for a thread that is woken by the current thread of the CPU `waker`.
    ///
    /// If the two threads wake each other, one mostly waits for the other. Then the same CPU is best for
    /// both, since no wake-up has to reach another CPU. If both could run at the same time, the end of a
    /// trial notices that ([`Cpu::end_trial`]).
    #[inline(never)]
    fn place_from(
        &self,
        waker: &'static Cpu<T, P, L>,
        thread: &'static T,
        now: impl Fn() -> u64,
    ) -> Reschedule {
        // A policy without run times has no trials, and treats the waker like any other thread.
        if P::LONG_RUN.is_none() {
            return self.place(thread, thread.entity().cpu(), now);
        }
        let current = waker.current();
        if is_answer(current, thread) && can_migrate(thread) && waker.is_free_beside() {
            let must_reschedule = waker.enqueue_beside(thread, &self.loaded, now);
            return Reschedule::cpu_if(waker.number(), must_reschedule);
        }
        // If the waker has a higher priority, the woken thread would wait on the waker's CPU until the waker
        // blocks.
        let has_priority = thread.entity().rank() <= current.entity().rank();
        self.place(thread, if has_priority { waker.number() } else { thread.entity().cpu() }, now)
    }

    /// Converts the virtual runtime of a thread for a move to the CPU `to` at the time `now`: its distance
    /// from the CPU's virtual time stays the same. Returns `None` if the thread has no virtual runtime, or if
    /// one of the two CPUs does not account for run time.
    fn runtime_on(&self, to: &Cpu<T, P, L>, thread: &'static T, now: u64) -> Option<u64> {
        let runtime = Some(thread.entity().runtime.load(Relaxed)).filter(|&runtime| runtime != NO_CREDIT)?;
        let from = self.get(thread.entity().cpu())?.virtual_time(now)?;
        Some(to.virtual_time(now)?.saturating_add_signed(runtime.wrapping_sub(from).cast_signed()))
    }

    /// Returns the CPU `near`, unless `home` or the CPU after `near` has at least two ready threads fewer.
    fn less_loaded(&self, near: u32, home: u32) -> u32 {
        let ready = |number| self.get(number).map_or(u32::MAX, Cpu::ready_count);
        let next = (near + 1) % self.count().max(1);
        let other = if ready(home) <= ready(next) { home } else { next };
        if ready(other).saturating_add(1) < ready(near) { other } else { near }
    }

    /// The CPU with the fewest ready threads, except `own`. If there are several, the first one after `own`
    /// by number.
    fn least_loaded(&self, own: u32) -> Option<&'static Cpu<T, P, L>> {
        let count = self.count();
        let others = (1..count).filter_map(|offset| self.get((own + offset) % count));
        others.min_by_key(|cpu| cpu.ready_count())
    }

    /// Moves a ready thread from `cpu`, whose slice is over, to the CPU with the fewest ready threads, if
    /// that has at least two fewer. Now and then moves one also if that CPU has only one fewer, so that
    /// threads that cannot be distributed evenly take turns. Returns the CPU that must be rescheduled.
    ///
    /// Must be called before the next thread is picked. Afterwards the only ready thread may be the one that
    /// has just run, which still uses its stack and cannot move.
    pub fn balance(&self, cpu: &Cpu<T, P, L>, now: impl Fn() -> u64) -> Reschedule {
        if self.count() == 1 || cpu.ready_count() == 0 {
            return Reschedule::None;
        }
        let least_gap = if cpu.is_turn_to_rotate() { 1 } else { 2 };
        if cpu.ready_count() < least_gap {
            return Reschedule::None;
        }
        let target = self.least_loaded(cpu.number());
        let target = target.filter(|target| target.ready_count() + least_gap <= cpu.ready_count());
        let Some(target) = target else { return Reschedule::None };
        let Some(thread) = cpu.give_away(&self.loaded, &now) else { return Reschedule::None };
        let runtime = self.runtime_on(target, thread, now()).unwrap_or(NO_CREDIT);
        thread.entity().set_cpu(target.number(), runtime);
        self.enqueue_on(target, thread, false, now)
    }

    /// Claims and returns an idle CPU: `home` if it is idle, else the next idle CPU by number. A claimed CPU
    /// cannot be claimed again until it has looked at the run queues.
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

    /// Claims the CPU of this number. Returns false if it is busy or claimed already.
    #[inline]
    fn claim(&self, number: u32) -> bool {
        self.is_idle(number) && self.idle.fetch_and(!bit(number), SeqCst) & bit(number) != 0
    }

    /// Claims an idle CPU for a thread that was enqueued on CPU `home` while `home` was busy.
    ///
    /// This is necessary because `home` or another CPU may have become idle at the same time without having
    /// seen the thread. Also, if the thread still uses its stack, its CPU may be about to switch to another
    /// thread.
    #[inline]
    fn reschedule_idle(&self, home: u32, pinned: bool) -> Reschedule {
        if self.count() > 1 {
            // Pairs with the fence in `pick_next_or_idle`: either this CPU sees the idle bit, or the idle CPU
            // sees the thread.
            fence(SeqCst);
        }
        let claimed = if pinned { self.claim(home).then_some(home) } else { self.claim_idle(home) };
        claimed.map_or(Reschedule::None, Reschedule::Cpu)
    }

    /// Claims an idle CPU that can steal from the run queue of the busy CPU `cpu`, if there is something to
    /// steal. A thread that was placed on the CPU of its waker is left there for now.
    pub fn reschedule_stealer(&self, cpu: &Cpu<T, P, L>) -> Reschedule {
        let is_loaded = cpu.ready_count() > 0 && cpu.is_listed();
        if self.count() == 1 || !is_loaded || cpu.has_only_beside() || !cpu.has_stealable(&self.loaded) {
            return Reschedule::None;
        }
        self.reschedule_idle(cpu.number(), false)
    }

    /// Picks the next thread of an idle CPU, from its own run queue or else from another CPU. The caller then
    /// calls [`Self::reschedule_stealer`] for the threads that are left. If this returns `None`, the CPU is
    /// marked as idle, and is rescheduled when a thread becomes ready that it can run.
    pub fn pick_next_or_idle(&self, cpu: &Cpu<T, P, L>, now: impl Fn() -> u64) -> Option<&'static T> {
        let loaded = &self.loaded;
        let mut pauses = 1;
        loop {
            let steal = || self.loaded_others(cpu).find_map(|other| other.steal(loaded));
            let adopt = |thread| {
                let runtime = self.runtime_on(cpu, thread, now()).unwrap_or(NO_CREDIT);
                cpu.adopt(thread, runtime, &now, loaded)
            };
            let stolen = || steal().map(adopt);
            if let Some(next) = cpu.pick_from_idle(&now, loaded).or_else(stolen) {
                // If the CPU was rescheduled without having been claimed, its idle bit is still set.
                self.leave_idle(cpu.number());
                return Some(next);
            }
            self.idle.fetch_or(bit(cpu.number()), SeqCst);
            // A wake-up before the bit was set has not rescheduled this CPU. The fence pairs with that in
            // `reschedule_idle`: either this CPU sees the enqueued thread, or the waker sees the idle bit.
            fence(SeqCst);
            let has_work =
                cpu.ready_count() > 0 || self.loaded_others(cpu).any(|other| other.has_stealable(loaded));
            // If a waker has claimed this CPU in the meantime, the waker has a thread for it and reschedules
            // it.
            if !has_work || !self.claim(cpu.number()) {
                return None;
            }
            // All ready threads still use their stacks, each until its CPU has switched to another thread.
            // Pauses before the next check, because a check takes the locks of those CPUs' run queues and
            // writes the set of idle CPUs.
            (0..pauses).for_each(|_| spin_loop());
            pauses = (2 * pauses).min(MAX_PAUSES);
        }
    }

    /// The other CPUs in [`Self::loaded`], in cyclic order of their numbers, beginning after this CPU.
    fn loaded_others(&self, cpu: &Cpu<T, P, L>) -> impl Iterator<Item = &'static Cpu<T, P, L>> {
        let own = cpu.number();
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
