//! Return of free memory to the host.
//!
//! Each free marks its memory ([`hermit_memory::freed_units`]) under the memory lock, and sets [`DUE`] when
//! enough memory was freed. The slow path of a free then calls [`notify`], with no spinlock held. This makes
//! the kernel start a thread, which calls [`return_freed`] once per period, until a period passes in which
//! nothing was freed. While the host takes memory back, this memory counts as allocated, so that no program
//! gets it.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::address::AddressRange;
use hermit_virtio::balloon::FreeMemory;

use super::paging::{self, MemoryState};
use crate::once::Once;
use crate::ops::MemoryReturn;
use crate::{interrupts, ops};

/// True if enough memory was freed to start the periods.
static DUE: AtomicBool = AtomicBool::new(false);

/// Function that makes the kernel call [`return_freed`] once per period.
static START: Once<fn()> = Once::new();

/// A step of the search for memory to return.
#[derive(Debug)]
pub(super) struct ReturnStep {
    /// Memory that was found.
    pub(super) taken: Option<TakenMemory>,
    /// Physical address at which the search goes on.
    pub(super) next: u64,
}

/// Records that enough memory was freed to start the periods. Called under the memory lock.
pub(super) fn set_due() {
    DUE.store(true, Relaxed);
}

/// Sets the hook `start`. Only the first call has an effect. The hook makes the kernel call [`return_freed`]
/// once per period, unless it does so already. It runs with no spinlock held, but the thread that runs it may
/// hold sleeping locks.
pub fn set_return_hook(start: fn()) {
    START.call_once(|| start);
}

/// True if enough memory was freed to start the periods.
pub fn is_return_due() -> bool {
    DUE.load(Relaxed)
}

/// Starts the periods if enough memory was freed. If interrupts are masked, leaves that to a later free.
pub(super) fn notify() {
    if is_return_due()
        && interrupts::are_unmasked()
        && let Some(start) = START.get()
    {
        start();
    }
}

/// Free memory that was allocated to return it to the host. If it is dropped, the memory is lost.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "memory that is dropped is lost"]
pub struct TakenMemory(AddressRange);

impl TakenMemory {
    /// Takes over physical memory, at most `MAX_RETURNED` bytes, that the caller has just allocated for this
    /// purpose.
    pub(super) const fn new(range: AddressRange) -> Self {
        Self(range)
    }

    /// Gives the physical memory to the caller, which frees it.
    pub(super) const fn into_range(self) -> AddressRange {
        self.0
    }
}

// SAFETY: `PhysicalFrames::take_returnable` makes the value from memory that it has just allocated only for
// this. Only `MemoryState::free_returned` frees the memory, and it consumes the value. So nothing else uses
// the memory while the value exists, and if the value is dropped, nothing uses the memory afterwards.
unsafe impl FreeMemory for TakenMemory {
    fn address(&self) -> u64 {
        self.0.start
    }

    fn size(&self) -> u32 {
        // At most `MAX_RETURNED`, which is 2 MiB.
        u32::try_from(self.0.size()).unwrap_or(0)
    }
}

/// Result of reporting memory to a device.
#[derive(Debug)]
pub enum Reported {
    /// The host has discarded the memory's contents.
    Discarded(TakenMemory),
    /// There is no device, or the device has failed, so no more memory can return to the host. `None` means
    /// that the device may still access the memory; then the memory is lost.
    Refused(Option<TakenMemory>),
}

/// Returns the free memory to the host that was neither allocated nor freed during the last period, and
/// begins the next period. Returns false if no further period is needed, because nothing was freed in the
/// last period, or because no more memory can return.
///
/// If only a device can return memory, `has_device` returns true if there is such a device, and `report`
/// passes memory to the device.
pub fn return_freed(has_device: impl FnOnce() -> bool, report: impl Fn(TakenMemory) -> Reported) -> bool {
    DUE.store(false, Relaxed);
    // Checks for the device even if there is no memory to report. Otherwise the periods would continue
    // forever while little memory is free, since then there is never any memory to report.
    if ops::mmu().memory_return() == MemoryReturn::ByDevice && !has_device() {
        paging::with(stop_returning);
        return false;
    }
    let mut from = 0;
    // Takes the lock for one piece at a time, so that other CPUs need not wait for all of them.
    while let Some(ReturnStep { taken, next }) = paging::with(|memory| memory.take_returnable(from)) {
        if let Some(taken) = taken {
            let reported = return_taken(taken, &report);
            if !paging::with(|memory| finish_return(memory, reported)) {
                return false;
            }
        }
        from = next;
    }
    paging::with(|memory| memory.age_freed())
}

/// Returns memory to the host, by a call of the platform or by `report`.
pub(super) fn return_taken(taken: TakenMemory, report: impl FnOnce(TakenMemory) -> Reported) -> Reported {
    if ops::mmu().memory_return() != MemoryReturn::ByCall {
        return report(taken);
    }
    // SAFETY: nothing uses the memory of a `TakenMemory` but its owner, this function.
    unsafe { ops::mmu().return_memory(taken.0.start, taken.0.size()) };
    Reported::Discarded(taken)
}

/// Frees memory after it was reported. Returns false if no more memory can return.
pub(super) fn finish_return(memory: &mut MemoryState, reported: Reported) -> bool {
    let (free, goes_on) = match reported {
        Reported::Discarded(taken) => (Some(taken), true),
        Reported::Refused(taken) => (taken, false),
    };
    free.into_iter().for_each(|taken| memory.free_returned(taken));
    if !goes_on {
        stop_returning(memory);
    }
    goes_on
}

/// Ends the return of memory permanently.
fn stop_returning(memory: &mut MemoryState) {
    memory.stop_returning();
    // Frees may have set `DUE` since the period began, and no longer set it from now on. Clearing it prevents
    // another period.
    DUE.store(false, Relaxed);
}
