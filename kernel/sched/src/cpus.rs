//! All CPUs: placement of woken threads, work stealing, idle CPUs.
//!
//! Methods that make a thread ready return a [`Reschedule`]: the CPU that must look at its run queue again. The
//! caller sends it a reschedule IPI, or acts at once if it is the CPU that runs.

use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use crossbeam_utils::atomic::AtomicCell;
use hermit_interface::MAX_CPUS;

use crate::cpu::{Cpu, CpuMask, bit};
use crate::policy::Policy;
use crate::sync::{AtomicU32, AtomicU64, Lock, fence, spin_loop};
use crate::thread::{FULL_CREDIT, Thread};

/// Maximum number of pauses between two looks of a CPU at threads that it cannot run yet: some microseconds.
const MAX_PAUSES: u32 = if cfg!(loom) { 1 } else { 64 };

/// Entry of the table of CPUs; `None` until the CPU runs.
type CpuSlot<T, P, L> = AtomicCell<Option<&'static Cpu<T, P, L>>>;

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

impl<T: Thread, P: Policy<T>, L: Lock<P>> Cpus<T, P, L> {
    /// Adds a CPU, which runs from now on. A number of [`MAX_CPUS`] or more is ignored.
    pub fn add_cpu(&self, cpu: &'static Cpu<T, P, L>) {
        if let Some(slot) = self.slots.get(cpu.number() as usize) {
            slot.store(Some(cpu));
            self.count.fetch_add(1, Relaxed);
        }
    }

    /// Makes a blocked or new thread ready: enqueues it on an idle CPU if it may migrate and one is idle, else on its
    /// own CPU. `now` returns the time of the monotonic clock in nanoseconds.
    #[inline(always)]
    pub fn make_ready(&self, thread: &'static T, now: impl FnOnce() -> u64) -> Reschedule {
        if self.count() != 1 {
            return self.place(thread, now);
        }
        // The only CPU that runs is the first. If it is idle, it is inside the interrupt that wakes the thread, and looks at its
        // run queue afterwards.
        let must_reschedule = self.slots[0].load().is_some_and(|cpu| cpu.enqueue(thread, &self.loaded, now));
        if must_reschedule { Reschedule::Cpu(0) } else { Reschedule::None }
    }

    /// [`Self::make_ready`] where several CPUs run.
    #[inline(never)]
    fn place(&self, thread: &'static T, now: impl FnOnce() -> u64) -> Reschedule {
        let entity = thread.entity();
        let (home, pinned) = (entity.cpu(), entity.is_pinned());
        // A thread that still uses its stack cannot migrate.
        let fixed = pinned || thread.is_running();
        let claimed = if fixed { None } else { self.claim_idle(home) };
        let number = claimed.unwrap_or(home);
        let Some(cpu) = self.get(number) else { return Reschedule::None };
        if claimed.is_some() {
            entity.set_cpu(number, FULL_CREDIT);
        }
        let must_reschedule = cpu.enqueue(thread, &self.loaded, now);
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
    #[inline(always)]
    pub fn wake(&self, thread: &'static T, now: impl FnOnce() -> u64) -> Reschedule {
        if thread.entity().unpark() { self.make_ready(thread, now) } else { Reschedule::None }
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
        let is_loaded = cpu.ready_count() > 0 && cpu.is_listed();
        if self.count() == 1 || !is_loaded || !cpu.has_stealable(&self.loaded) {
            return Reschedule::None;
        }
        self.reschedule_idle(cpu.number(), false)
    }

    /// Picks the next thread of a CPU without a current one: from its own run queue, else stolen from another CPU. The
    /// caller then calls [`Self::reschedule_stealer`] for the threads that are left. With `None` the CPU is marked
    /// idle, and the next thread that it could run reschedules it.
    pub fn pick_next_or_idle(&self, cpu: &Cpu<T, P, L>, now: impl Fn() -> u64) -> Option<&'static T> {
        let loaded = &self.loaded;
        let mut pauses = 1;
        loop {
            let steal = || self.loaded_others(cpu).find_map(|other| other.steal(loaded));
            let stolen = || steal().map(|thread| cpu.adopt(thread, &now, loaded));
            if let Some(next) = cpu.pick_from_idle(&now, loaded).or_else(stolen) {
                // The CPU may have been rescheduled without having been claimed: then its idle bit is still set.
                self.leave_idle(cpu.number());
                return Some(next);
            }
            self.idle.fetch_or(bit(cpu.number()), SeqCst);
            // A thread that was enqueued before the bit was set has rescheduled no CPU: either it is seen here, or
            // `reschedule_idle` sees the bit.
            fence(SeqCst);
            let has_work =
                cpu.ready_count() > 0 || self.loaded_others(cpu).any(|other| other.has_stealable(loaded));
            // A waker that has claimed this CPU in the meantime has another thread for it, and reschedules it.
            if !has_work || !self.claim(cpu.number()) {
                return None;
            }
            // All threads that are ready still use their stacks, each until its CPU has switched to another one. Looking again
            // takes the locks of those CPUs' run queues, and writes the set of idle ones.
            (0..pauses).for_each(|_| spin_loop());
            pauses = (2 * pauses).min(MAX_PAUSES);
        }
    }

    /// The other CPUs in [`Self::loaded`], in the order of their numbers from the next one on.
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
