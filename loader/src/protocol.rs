//! What both boot protocols tell, in one form.

use hermit_boot::FreeMemory;
use hermit_interface::address::{AddressRange, PAGE_SIZE};

/// Number of usable memory in the map of either protocol (E820).
pub(crate) const USABLE: u32 = 1;

/// The machine as the monitor describes it.
#[derive(Debug)]
pub(crate) struct Machine {
    /// Usable memory, in whole pages and without the first page.
    pub(crate) free: FreeMemory,
    /// Where the first module (`-initrd`) lies.
    pub(crate) module: Option<AddressRange>,
    /// The command line, without its end.
    pub(crate) command_line: &'static [u8],
    /// Address of the ACPI root pointer, 0 if unknown.
    pub(crate) rsdp: u64,
}

/// Adds a range of usable memory, so far as it consists of whole pages.
pub(crate) fn add_usable(free: &mut FreeMemory, start: u64, size: u64) {
    let end = start.saturating_add(size) & !(PAGE_SIZE - 1);
    let start = start.max(PAGE_SIZE).next_multiple_of(PAGE_SIZE);
    if start < end {
        // A range that overlaps another, or one too many, is left out: less memory, never memory used twice.
        let _: Result<(), hermit_memory::ranges::FreeError> = free.free(AddressRange { start, end });
    }
}
