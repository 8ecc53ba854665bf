//! The high-precision event timer (IA-PC HPET specification 1.0a), of which only the counter is used.

use hermit_interface::address::PAGE_SIZE;

use super::reference::Reference;
use crate::platform::cpus;
use crate::platform::registers::Registers;

/// Register offsets, in 32-bit words.
const PERIOD: usize = 1;
const CONFIGURATION: usize = 0x10 / 4;
const COUNTER: usize = 0xf0 / 4;

/// The counter runs.
const ENABLE: u32 = 1 << 0;

/// Femtoseconds in a second; and the longest tick that the specification allows, in femtoseconds.
const FEMTOSECONDS: u64 = 1_000_000_000_000_000;
const LONGEST: u64 = 100_000_000;

static REGISTERS: Registers = Registers::new();

/// The timer, if there is one, counting.
pub(super) fn find() -> Option<Reference<impl Fn() -> u64>> {
    let physical = cpus::machine()?.hpet.filter(|address| address.is_multiple_of(PAGE_SIZE))?;
    // SAFETY: the firmware says that the timer is there, which does not affect memory.
    unsafe { REGISTERS.map(physical) }.ok()?;
    let period = u64::from(REGISTERS.read(PERIOD));
    if period == 0 || period > LONGEST {
        return None;
    }
    REGISTERS.write(CONFIGURATION, ENABLE);
    Some(Reference { frequency: FEMTOSECONDS / period, read: || REGISTERS.read(COUNTER).into() })
}
