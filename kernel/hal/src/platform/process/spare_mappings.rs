//! Spare mappings: room for mappings that must not fail.
//!
//! Linux limits the number of mappings of a process (`vm.max_map_count`, 65,530 by default). A program with
//! tens of thousands of threads can reach the limit, and then stacks could no longer grow. So the kernel
//! holds a few spare mappings. It releases one of them when a mapping must not fail. As long as a spare
//! mapping is missing, allocations fail.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use hermit_interface::address::PAGE_SIZE;
use hermit_paging::Access;

use super::linux::{self, LinuxError};
use crate::memory::{self, OutOfMemory};

/// Number of spare mappings.
const COUNT: u32 = 64;

/// Number of changes of mappings before the kernel makes spare mappings. So small programs need no system
/// calls for them.
const THRESHOLD: u32 = 1024;

/// Number of changes so far, up to [`THRESHOLD`]. This counter and [`HELD`] change only under the memory
/// lock.
static CHANGES: AtomicU32 = AtomicU32::new(0);

/// Number of spare mappings that are held.
static HELD: AtomicU32 = AtomicU32::new(0);

/// Address of the first spare mapping.
static START: AtomicU64 = AtomicU64::new(0);

/// Reserves the addresses of spare mappings.
pub(super) fn init() -> Result<(), OutOfMemory> {
    START.store(memory::reserve_addresses(2 * u64::from(COUNT) * PAGE_SIZE)?, Relaxed);
    Ok(())
}

/// Address of a spare mapping. No two spare mappings are adjacent, since Linux would merge them.
fn address(number: u32) -> u64 {
    START.load(Relaxed) + 2 * u64::from(number) * PAGE_SIZE
}

/// Makes the missing spare mappings, if there were enough changes to need them. Returns false if Linux does
/// not allow it. The memory lock is held.
pub(super) fn refill() -> bool {
    CHANGES.load(Relaxed) < THRESHOLD || (HELD.load(Relaxed)..COUNT).all(hold)
}

fn hold(number: u32) -> bool {
    // SAFETY: `init` has reserved the addresses for spare mappings, and the mapping allows no access.
    let held = unsafe { linux::map(address(number), 0, PAGE_SIZE, Access::None) }.is_ok();
    if held {
        HELD.store(number + 1, Relaxed);
    }
    held
}

/// Releases one spare mapping. Returns false if there is none.
fn release() -> bool {
    let Some(last) = HELD.load(Relaxed).checked_sub(1) else { return false };
    HELD.store(last, Relaxed);
    // SAFETY: the mapping allows no access, so nothing uses it.
    unsafe { linux::unmap(address(last), PAGE_SIZE) }.is_ok()
}

/// Calls `change`, which changes mappings. As long as Linux refuses, releases a spare mapping and tries
/// again. The memory lock is held.
pub(super) fn change(change: impl Fn() -> Result<(), LinuxError>) -> Result<(), LinuxError> {
    let changes = CHANGES.load(Relaxed);
    if changes < THRESHOLD {
        CHANGES.store(changes + 1, Relaxed);
    }
    loop {
        let result = change();
        if result != Err(LinuxError::NoMemory) || !release() {
            return result;
        }
    }
}
