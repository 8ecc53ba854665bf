//! The boot parameters that both protocols pass, in one type.

use hermit_boot::FreeMemory;
use hermit_interface::address::{AddressRange, PAGE_SIZE};

/// Type of usable memory in the memory map of either protocol (E820 type 1).
pub(crate) const USABLE: u32 = 1;

/// Parameters that the VMM passes to the loader.
#[derive(Debug)]
pub(crate) struct BootParameters {
    /// Usable memory, in whole pages and without the first page.
    pub(crate) free: FreeMemory,
    /// The first modules (`-initrd`).
    pub(crate) modules: [Option<AddressRange>; 2],
    /// The command line, without the NUL at its end.
    pub(crate) command_line: &'static [u8],
    /// Address of the ACPI root pointer, 0 if unknown.
    pub(crate) rsdp: u64,
}

/// Adds the whole pages of a usable range.
pub(crate) fn add_usable(free: &mut FreeMemory, start: u64, size: u64) {
    let end = start.saturating_add(size) & !(PAGE_SIZE - 1);
    let start = start.max(PAGE_SIZE).next_multiple_of(PAGE_SIZE);
    if start < end {
        // Leaves out a range that overlaps another one, or for which the table has no room. The machine then
        // has less memory, but no memory is used twice.
        let _: Result<(), hermit_memory::ranges::FreeError> = free.free(AddressRange { start, end });
    }
}
