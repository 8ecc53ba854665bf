//! TLB shootdown: flushing the TLBs of all CPUs after a change of the page tables.
//!
//! A processor caches translations in its TLB, and no other processor can flush it. So after a page was
//! unmapped or restricted, every CPU must flush its own TLB before the memory is used for something else.
//! This module has only the protocol. The caller implements the flush of a CPU's own TLB and the
//! inter-processor interrupt (IPI).
//!
//! Changes of the page tables that need a flush get numbers, the generations. Each CPU records up to which
//! generation it has flushed. It flushes in the handler of the IPI, or while it waits for something. Any
//! number of CPUs may request flushes at the same time: one flush of a CPU serves all generations before it.
//!
//! An idle CPU need not be woken for changes of pages ([`FlushScope::Pages`]): it flushes before it uses
//! pages again.
//!
//! ```
//! use hermit_paging::{FlushScope, Shootdown};
//!
//! let shootdown = Shootdown::new();
//! shootdown.join(0, || ());
//! shootdown.join(1, || ());
//! let answer = || shootdown.flush_if_behind(1, || println!("CPU 1 flushes its TLB"));
//! // Here CPU 1 answers at once; in a kernel it answers from the handler of the IPI.
//! let send_ipi = |cpus| {
//!     assert_eq!(cpus, 1 << 1);
//!     answer();
//! };
//! shootdown.flush_all(0, FlushScope::Tables, || println!("CPU 0 flushes its TLB"), send_ipi, || unreachable!());
//! ```

#[cfg(test)]
#[cfg(loom)]
mod models;

#[cfg(not(loom))]
use core::sync::atomic::{AtomicBool, AtomicU64, fence};

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, AtomicU64, fence};

/// Maximum number of CPUs; the models have two.
const MAX_CPUS: usize = if cfg!(loom) { 2 } else { hermit_interface::MAX_CPUS };

/// Kind of the objects that a change of the page tables has removed. It decides which CPUs must flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushScope {
    /// Pages, or access to them. Idle CPUs may flush later, in [`Shootdown::leave_idle`]: until then they use
    /// no such pages.
    Pages,
    /// Page tables, too. An idle CPU may still walk them speculatively and set bits in their entries, so it
    /// must flush as well.
    Tables,
}

/// The CPUs that use the same page tables, and the generation up to which each of them has flushed. CPU
/// numbers are below 64.
#[derive(Debug)]
pub struct Shootdown {
    /// CPUs that take part, one bit each.
    active: AtomicU64,
    /// Number of changes so far that other CPUs must flush: the current generation.
    generation: AtomicU64,
    cpus: [CpuState; MAX_CPUS],
}

/// State of one CPU, which only this CPU changes. It has a cache line of its own.
#[derive(Debug)]
#[repr(align(64))]
struct CpuState {
    /// Generation up to which the CPU has flushed.
    flushed: AtomicU64,
    /// True if the CPU is idle. It flushes before it clears this.
    is_idle: AtomicBool,
}

const fn bit(cpu: u32) -> u64 {
    1 << (cpu % u64::BITS)
}

impl CpuState {
    #[cfg(not(loom))]
    const fn new() -> Self {
        Self { flushed: AtomicU64::new(0), is_idle: AtomicBool::new(false) }
    }

    #[cfg(loom)]
    fn new() -> Self {
        Self { flushed: AtomicU64::new(0), is_idle: AtomicBool::new(false) }
    }

    /// Returns true if the CPU no longer uses anything that the changes up to a generation have removed.
    fn is_done(&self, generation: u64, scope: FlushScope) -> bool {
        // Acquire: pairs with the Release of `flushed` and `is_idle`, so all earlier uses of the TLB happen
        // before the memory is used again.
        self.flushed.load(Acquire) >= generation || scope == FlushScope::Pages && self.is_idle.load(Acquire)
    }
}

impl Default for Shootdown {
    fn default() -> Self {
        Self::new()
    }
}

impl Shootdown {
    /// Page tables that no CPU uses so far. The value is all zero, so that a static variable takes no room in
    /// the image's file.
    #[cfg(not(loom))]
    #[must_use]
    pub const fn new() -> Self {
        let cpus = [const { CpuState::new() }; MAX_CPUS];
        Self { active: AtomicU64::new(0), generation: AtomicU64::new(0), cpus }
    }

    /// Page tables that no CPU uses so far; loom's atomics cannot be made in constants.
    #[cfg(loom)]
    #[must_use]
    pub fn new() -> Self {
        let cpus = core::array::from_fn(|_| CpuState::new());
        Self { active: AtomicU64::new(0), generation: AtomicU64::new(0), cpus }
    }

    fn state(&self, cpu: u32) -> &CpuState {
        &self.cpus[cpu as usize % MAX_CPUS]
    }

    /// Includes the calling CPU in flushes from now on. `flush` flushes its TLB, since earlier requests were
    /// not sent to it.
    pub fn join(&self, cpu: u32, flush: impl FnOnce()) {
        self.active.fetch_or(bit(cpu), AcqRel);
        // Either a CPU that makes a change sees the bit, or this flush comes after the change (see
        // `flush_all`).
        fence(SeqCst);
        let generation = self.generation.load(Acquire);
        flush();
        self.state(cpu).flushed.fetch_max(generation, Release);
    }

    /// Returns true if CPUs other than this one take part.
    #[must_use]
    pub fn has_others(&self, cpu: u32) -> bool {
        self.active.load(Acquire) & !bit(cpu) != 0
    }

    /// Calls `flush` if there are changes that the calling CPU has not flushed. `flush` flushes its TLB.
    #[inline]
    pub fn flush_if_behind(&self, cpu: u32, flush: impl FnOnce()) {
        let state = self.state(cpu);
        let generation = self.generation.load(Acquire);
        if state.flushed.load(Relaxed) < generation {
            flush();
            // The handler of an IPI may have interrupted this, and flushed for a later generation.
            state.flushed.fetch_max(generation, Release);
        }
    }

    /// Marks the calling CPU as idle. Until [`Self::leave_idle`], it uses nothing that may be unmapped.
    pub fn enter_idle(&self, cpu: u32) {
        // Release: all earlier uses of the TLB happen before the memory is used again.
        self.state(cpu).is_idle.store(true, Release);
    }

    /// Ends [`Self::enter_idle`], if it was called. Calls `flush`, which flushes the CPU's TLB, if there were
    /// changes meanwhile.
    #[inline]
    pub fn leave_idle(&self, cpu: u32, flush: impl FnOnce()) {
        let state = self.state(cpu);
        if !state.is_idle.load(Relaxed) {
            return;
        }
        state.is_idle.store(false, Relaxed);
        // Either this CPU sees the change here, or the CPU that makes the change sees that this one is not
        // idle (see `flush_all`).
        fence(SeqCst);
        self.flush_if_behind(cpu, flush);
    }

    /// Flushes the TLBs of all CPUs after a change of the page tables. Returns when all have flushed.
    ///
    /// `flush` flushes the TLB of the calling CPU, and orders the change before later loads. `send_ipi`
    /// interrupts the CPUs in a mask so that they call [`Self::flush_if_behind`]. `wait` is called repeatedly
    /// until all have flushed. If the calling CPU may not take the IPI, `wait` must answer requests of other
    /// CPUs.
    pub fn flush_all(
        &self,
        cpu: u32,
        scope: FlushScope,
        flush: impl Fn(),
        send_ipi: impl FnOnce(u64),
        mut wait: impl FnMut(),
    ) {
        // Read before the flush, to know whether another CPU has made a change meanwhile.
        let before = self.generation.load(Acquire);
        flush();
        // Read after the change, as `flush` orders: a CPU that joins later flushes after the change.
        let others = self.active.load(Acquire) & !bit(cpu);
        if others == 0 {
            return;
        }
        let generation = self.generation.fetch_add(1, AcqRel) + 1;
        if generation == before + 1 {
            // All changes up to this generation were made before this CPU flushed.
            self.state(cpu).flushed.fetch_max(generation, Release);
        }
        // A CPU that leaves idle either sees the generation, or is seen here as not idle.
        fence(SeqCst);
        let is_behind =
            |other: &u32| others & bit(*other) != 0 && !self.state(*other).is_done(generation, scope);
        let behind = (0..u64::BITS).filter(is_behind).fold(0, |cpus, other| cpus | bit(other));
        if behind == 0 {
            return;
        }
        send_ipi(behind);
        for other in (0..u64::BITS).filter(|other| behind & bit(*other) != 0) {
            while !self.state(other).is_done(generation, scope) {
                wait();
            }
        }
    }
}
