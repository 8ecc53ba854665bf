//! The high-precision event timer (IA-PC HPET specification 1.0a). Only its main counter is used.

use hermit_interface::address::PAGE_SIZE;

use super::calibration::Reference;
use crate::platform::native::register_page::RegisterPage;
use crate::platform::native::smp;

/// Register offsets, in 32-bit words.
const PERIOD: usize = 1;
const CONFIGURATION: usize = 0x10 / 4;
const COUNTER: usize = 0xf0 / 4;

/// Bit of the configuration register: the counter runs.
const ENABLE: u32 = 1 << 0;

/// Femtoseconds in a second.
const FEMTOSECONDS: u64 = 1_000_000_000_000_000;
/// Longest period that the specification allows, in femtoseconds.
const MAX_PERIOD: u64 = 100_000_000;

static REGISTERS: RegisterPage = RegisterPage::new();

/// Finds the timer through the firmware's tables, and starts its counter.
pub(super) fn find() -> Option<Reference<impl Fn() -> u64>> {
    let physical = smp::firmware()?.hpet.filter(|address| address.is_multiple_of(PAGE_SIZE))?;
    // SAFETY: according to the firmware's tables, this is the page of the HPET, whose registers and
    // interrupts do not affect memory. The address is page-aligned (checked).
    unsafe { REGISTERS.map(physical) }.ok()?;
    let period = u64::from(REGISTERS.read(PERIOD));
    if period == 0 || period > MAX_PERIOD {
        return None;
    }
    REGISTERS.write(CONFIGURATION, ENABLE);
    Some(Reference { frequency: FEMTOSECONDS / period, read: || REGISTERS.read(COUNTER).into() })
}
