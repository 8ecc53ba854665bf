//! Firmware tables like QEMU's, with single errors, and tables of random bytes.

mod acpi;
mod multiprocessor;
mod random;
mod sample;

use crate::{InterruptLine, IsaInterrupt, Polarity, TriggerMode};

/// An element of [`crate::PlatformInfo::isa_interrupts`].
fn isa_interrupt(source: u8, gsi: u32, polarity: Polarity, trigger: TriggerMode) -> IsaInterrupt {
    IsaInterrupt { source, line: InterruptLine { gsi, polarity, trigger } }
}
