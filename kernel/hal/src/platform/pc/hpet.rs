//! The high-precision event timer (IA-PC HPET specification 1.0a), of which only the counter is used.

use core::ptr::NonNull;

use super::cpus;
use super::reference::Reference;
use crate::memory::map_device_page;

/// Register offsets, in 32-bit words.
const PERIOD: usize = 1;
const CONFIGURATION: usize = 0x10 / 4;
const COUNTER: usize = 0xf0 / 4;

/// The counter runs.
const ENABLE: u32 = 1 << 0;

/// Femtoseconds in a second; and the longest tick that the specification allows, in femtoseconds.
const FEMTOSECONDS: u64 = 1_000_000_000_000_000;
const LONGEST: u64 = 100_000_000;

const PAGE_SIZE: u64 = 4096;

/// The timer, if there is one, counting.
pub(super) fn find() -> Option<Reference<impl Fn() -> u64>> {
    let physical = cpus::machine()?.hpet.filter(|address| address.is_multiple_of(PAGE_SIZE))?;
    let page = map_device_page(physical).ok()?;
    let period = u64::from(read(page, PERIOD));
    if period == 0 || period > LONGEST {
        return None;
    }
    // SAFETY: within the page of registers.
    let configuration = unsafe { page.add(CONFIGURATION) };
    // SAFETY: the page is mapped to the timer's registers, which do not affect memory.
    unsafe { configuration.write_volatile(ENABLE) };
    Some(Reference { frequency: FEMTOSECONDS / period, read: move || read(page, COUNTER).into() })
}

fn read(page: NonNull<u32>, register: usize) -> u32 {
    // SAFETY: the offset is within the page of registers.
    let register = unsafe { page.add(register) };
    // SAFETY: the page is mapped to the timer's registers, which do not affect memory.
    unsafe { register.read_volatile() }
}
