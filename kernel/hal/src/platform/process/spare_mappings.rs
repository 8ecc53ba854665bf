//! Spare mappings: room for mappings that must not fail.
//!
//! Linux limits the number of a process's mappings (`vm.max_map_count`, 65,530 by default). A program with as
//! many threads reaches the limit, and then stacks could no longer grow. So the kernel holds some mappings
//! that it can release for one that must not fail; allocations fail as long as any of them is missing.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicU32, AtomicU64};

use hermit_interface::address::PAGE_SIZE;
use hermit_paging::Access;

use super::linux::{self, LinuxError};
use crate::memory::{self, OutOfMemory};

/// Number of spare mappings.
const COUNT: u32 = 64;

/// Changes of mappings before which no spare mappings are made: small programs do without the system calls.
const THRESHOLD: u32 = 1024;

/// Number of changes so far, up to [`THRESHOLD`]. Like the other variable here, it changes under the memory
/// lock only.
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

/// Address of a spare mapping. No two are adjacent: Linux would merge them.
fn address(number: u32) -> u64 {
    START.load(Relaxed) + 2 * u64::from(number) * PAGE_SIZE
}

/// Makes the missing spare mappings, unless there is no need yet; `false` if Linux does not allow it. The
/// memory lock is held.
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

/// Releases one spare mapping; `false` if there is none.
fn release() -> bool {
    let Some(last) = HELD.load(Relaxed).checked_sub(1) else { return false };
    HELD.store(last, Relaxed);
    // SAFETY: the mapping allows no access, so nothing uses it.
    unsafe { linux::unmap(address(last), PAGE_SIZE) }.is_ok()
}

/// Makes a change of mappings; if Linux refuses, releases spare mappings and tries again. The memory lock is
/// held.
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
