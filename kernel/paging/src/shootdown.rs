//! TLB shootdown: flushing the TLBs of all CPUs after a change of the page tables.
//!
//! A processor caches translations in its TLB, and no other processor can flush it. So after a page was
//! unmapped or its access restricted, every CPU must flush its own TLB before the memory is used for another
//! purpose. This module has only the protocol. The caller implements the flush of a CPU's own TLB and the
//! inter-processor interrupt (IPI).
//!
//! Each change of the page tables that needs a flush gets a number, its generation. Each CPU records the
//! generation up to which it has flushed. A CPU flushes in the handler of the IPI, or while it waits for
//! another CPU. Any number of CPUs may request flushes at the same time: one flush of a CPU serves all
//! generations so far.
//!
//! An idle CPU need not be woken for changes of pages ([`FlushScope::Pages`]): it flushes its TLB before it
//! uses pages again.
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

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};

use hermit_base::bits::bit;
use hermit_base::sync::IS_MODEL;
use hermit_base::sync::atomic::{AtomicBool, AtomicU64, fence};
use hermit_base::{const_array, const_fn};

/// Maximum number of CPUs; the models have two.
const MAX_CPUS: usize = if IS_MODEL { 2 } else { hermit_interface::MAX_CPUS };

/// Kind of the objects that a change of the page tables has removed. It decides which CPUs must flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushScope {
    /// Only pages, or access to pages. Idle CPUs may flush later, in [`Shootdown::leave_idle`], since they
    /// use no such pages until then.
    Pages,
    /// Also page tables. An idle CPU may still walk a removed table speculatively and set bits in its
    /// entries, so idle CPUs must flush as well.
    Tables,
}

/// The CPUs that use the same page tables, and the generation up to which each of them has flushed. CPU
/// numbers are below 64.
#[derive(Debug)]
pub struct Shootdown {
    /// CPUs that take part, one bit each.
    active: AtomicU64,
    /// The current generation: number of changes so far for which other CPUs must flush.
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

impl CpuState {
    const_fn! {
        const fn new() -> Self {
            Self { flushed: AtomicU64::new(0), is_idle: AtomicBool::new(false) }
        }
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
    const_fn! {
        /// Creates the state of page tables that no CPU uses so far. The value is all zero, so that a static
        /// variable takes no space in the image's file.
        #[must_use]
        pub const fn new() -> Self {
            let cpus = const_array![CpuState::new(); MAX_CPUS];
            Self { active: AtomicU64::new(0), generation: AtomicU64::new(0), cpus }
        }
    }

    fn state(&self, cpu: u32) -> &CpuState {
        &self.cpus[cpu as usize % MAX_CPUS]
    }

    /// Includes the calling CPU in flushes from now on. `flush` must flush its TLB. That is necessary because
    /// earlier requests were not sent to this CPU.
    pub fn join(&self, cpu: u32, flush: impl FnOnce()) {
        self.active.fetch_or(bit(cpu), AcqRel);
        // Ensures that a CPU that makes a change sees the bit, or that this flush comes after the change (see
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
            // A maximum, since the handler of an IPI may have interrupted this and flushed for a later
            // generation.
            state.flushed.fetch_max(generation, Release);
        }
    }

    /// Marks the calling CPU as idle. Until [`Self::leave_idle`], this CPU must not use memory that may be
    /// unmapped.
    pub fn enter_idle(&self, cpu: u32) {
        // Release: all earlier uses of the TLB happen before the memory is used again.
        self.state(cpu).is_idle.store(true, Release);
    }

    /// Ends [`Self::enter_idle`], if it was called. Calls `flush`, which must flush the CPU's TLB, if there
    /// were changes meanwhile.
    #[inline]
    pub fn leave_idle(&self, cpu: u32, flush: impl FnOnce()) {
        let state = self.state(cpu);
        if !state.is_idle.load(Relaxed) {
            return;
        }
        state.is_idle.store(false, Relaxed);
        // Ensures that this CPU sees the change here, or that the CPU that makes the change sees that this
        // CPU is not idle (see `flush_all`).
        fence(SeqCst);
        self.flush_if_behind(cpu, flush);
    }

    /// Flushes the TLBs of all CPUs after a change of the page tables. Returns when all have flushed.
    ///
    /// `flush` flushes the TLB of the calling CPU, and orders the change before later loads. `send_ipi`
    /// interrupts the CPUs in a mask so that they call [`Self::flush_if_behind`]. `wait` is called repeatedly
    /// until all have flushed. If the calling CPU does not accept the IPI meanwhile, `wait` must call
    /// [`Self::flush_if_behind`], to answer requests of other CPUs.
    pub fn flush_all(
        &self,
        cpu: u32,
        scope: FlushScope,
        flush: impl Fn(),
        send_ipi: impl FnOnce(u64),
        mut wait: impl FnMut(),
    ) {
        // Reads the generation before the flush, to detect changes by other CPUs since then.
        let before = self.generation.load(Acquire);
        flush();
        // Reads the set of CPUs after the change: `flush` ensures this order. A CPU that joins later flushes
        // after the change.
        let others = self.active.load(Acquire) & !bit(cpu);
        if others == 0 {
            return;
        }
        let generation = self.generation.fetch_add(1, AcqRel) + 1;
        if generation == before + 1 {
            // All changes up to this generation were made before this CPU flushed.
            self.state(cpu).flushed.fetch_max(generation, Release);
        }
        // Ensures that a CPU that leaves idle sees the new generation, or that this CPU sees that it is not
        // idle.
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
