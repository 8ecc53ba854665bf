//! Made-up memories: as QEMU fills them, broken in single ways, and full of rubbish.

mod acpi;
mod multiprocessor;
mod rubbish;
mod sample;

use crate::{IsaLine, Line, Polarity, Trigger};

/// A line as [`crate::PlatformInfo::isa_lines`] has it.
fn isa_line(isa: u8, number: u32, polarity: Polarity, trigger: Trigger) -> IsaLine {
    IsaLine { isa, line: Line { number, polarity, trigger } }
}
