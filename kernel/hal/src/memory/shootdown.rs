//! Making all CPUs forget mappings that have been taken away.
//!
//! One CPU asks at a time: it holds the memory lock. The others answer from an interrupt, which the software mask does not
//! hold back, or while they wait for a lock themselves, so that nobody waits for somebody who waits for them.

use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use x86_64::instructions::tlb;

use crate::arch::local;
use crate::platform;
use crate::sync::Patience;

/// The CPUs that run, a bit each.
static RUNNING: AtomicU64 = AtomicU64::new(1);

/// The CPUs that have not answered yet.
static ASKED: AtomicU64 = AtomicU64::new(0);

/// This CPU uses mappings from now on.
pub(crate) fn join() {
    RUNNING.fetch_or(1 << local::number(), AcqRel);
    // What was taken away before, nobody has told it.
    if platform::current().is_privileged() {
        tlb::flush_all();
    }
}

/// Whether other CPUs run.
pub(crate) fn has_others() -> bool {
    RUNNING.load(Acquire) & !(1 << local::number()) != 0
}

/// Forgets mappings if somebody has asked this CPU to.
#[inline]
pub(crate) fn serve() {
    if ASKED.load(Acquire) == 0 {
        return;
    }
    let own = 1 << local::number();
    if ASKED.load(Acquire) & own != 0 {
        tlb::flush_all();
        ASKED.fetch_and(!own, Release);
    }
}

/// Makes all CPUs forget mappings. The memory lock is held.
pub(crate) fn flush_everywhere() {
    tlb::flush_all();
    let others = RUNNING.load(Acquire) & !(1 << local::number());
    if others == 0 {
        return;
    }
    ASKED.store(others, Release);
    platform::current().flush_others();
    let mut patience = Patience::default();
    while ASKED.load(Relaxed) != 0 {
        patience.wait();
    }
    core::sync::atomic::fence(Acquire);
}
