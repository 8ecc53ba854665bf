//! The image's symbol table, for backtraces.

use core::ptr::with_exposed_provenance;
use core::slice;

use hermit_interface::boot_info::{BootInfo, Region};
use hermit_interface::to_usize;

use crate::once::Once;

static TABLES: Once<(&'static [u8], &'static [u8])> = Once::new();

/// Reads the addresses of the tables from the boot information.
pub(crate) fn init(info: &BootInfo) {
    let bytes = |range: Region| {
        let start = with_exposed_provenance(to_usize(info.direct_map.start + range.start));
        // SAFETY: by the loader's contract (`hermit_interface::boot_info`) the range is mapped in the direct
        // map and is not part of free memory, so nothing writes to it. Any bits are valid bytes.
        unsafe { slice::from_raw_parts(start, to_usize(range.size)) }
    };
    if info.symbols.table.size != 0 {
        TABLES.call_once(|| (bytes(info.symbols.table), bytes(info.symbols.strings)));
    }
}

/// The symbol table (ELF `.symtab`) and its strings (`.strtab`), if the loader kept them.
#[must_use]
pub fn tables() -> Option<(&'static [u8], &'static [u8])> {
    TABLES.get().copied()
}
