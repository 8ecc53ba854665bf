//! Room for mappings that must not fail.
//!
//! Linux allows a process only so many mappings (`vm.max_map_count`, 65,530 unless somebody has changed it). A program with that many
//! threads comes to the limit, and then stacks could no longer grow. So some mappings are held that are good for nothing but
//! to be given up; who asks for more memory gets none as long as any of them are missing.

use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::process::SPARE_ADDRESSES;
use hermit_paging::Access;

use super::linux::{self, Failed};

/// How many mappings are held.
const COUNT: u32 = 64;

/// They are not worth their time before so many mappings have been made.
const AFTER: u32 = 1024;

/// How many mappings have been made, if not more than that. Only changed under the memory lock, like the rest.
static MADE: AtomicU32 = AtomicU32::new(0);

/// How many are held.
static HELD: AtomicU32 = AtomicU32::new(0);

/// Where one of them is: not next to another, or Linux would make one of both.
fn place(number: u32) -> u64 {
    SPARE_ADDRESSES.start + 2 * u64::from(number) * PAGE_SIZE
}

/// Holds all again, unless there is no need yet; `false` if Linux does not allow it. The memory lock is held.
pub(super) fn refill() -> bool {
    MADE.load(Relaxed) < AFTER || (HELD.load(Relaxed)..COUNT).all(hold)
}

fn hold(number: u32) -> bool {
    // SAFETY: the addresses are for that alone, and nobody can access them.
    let held = unsafe { linux::map(place(number), 0, PAGE_SIZE, Access::None) }.is_ok();
    if held {
        HELD.store(number + 1, Relaxed);
    }
    held
}

/// Gives one up, if there is one.
fn give_up() -> bool {
    let Some(last) = HELD.load(Relaxed).checked_sub(1) else { return false };
    HELD.store(last, Relaxed);
    // SAFETY: nobody can access it.
    unsafe { linux::unmap(place(last), PAGE_SIZE) }.is_ok()
}

/// Makes a change of mappings, if need be in place of what is held. The memory lock is held.
pub(super) fn change(change: impl Fn() -> Result<(), Failed>) -> Result<(), Failed> {
    let made = MADE.load(Relaxed);
    if made < AFTER {
        MADE.store(made + 1, Relaxed);
    }
    loop {
        let result = change();
        if result != Err(Failed::NoMemory) || !give_up() {
            return result;
        }
    }
}
