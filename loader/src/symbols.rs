//! The image's symbol table, which the kernel uses for backtraces.

use hermit_boot::{FreeMemory, LoadedImage};
use hermit_interface::boot_info::{Region, Symbols};
use hermit_interface::image::Image;

use crate::memory::{self, IdentityMapped, whole_pages};

/// The symbol table is kept if its size is at most the size of memory divided by this.
const MEMORY_SHARE: u64 = 8;

/// Keeps the symbol table in place, in the image's file, if it is small compared with memory. `later` is the
/// memory that is free once the kernel runs, including the file. Ignores failures: without symbols,
/// backtraces contain only addresses.
pub(crate) fn keep(
    image: &Image<'_>,
    loaded: &mut LoadedImage,
    memory: &mut IdentityMapped,
    free: &mut FreeMemory,
    later: &mut FreeMemory,
) {
    let Some(symbols) = image.symbols() else { return };
    let [table, strings] = [symbols.table, symbols.strings].map(memory::range_of);
    if table.size() + strings.size() > (free.total() + later.total()) / MEMORY_SHARE {
        return;
    }
    let physical =
        |range: hermit_interface::address::AddressRange| Region { start: range.start, size: range.size() };
    let symbols = Symbols { table: physical(table), strings: physical(strings) };
    if loaded.keep_symbols(memory, free, symbols).is_err() {
        return;
    }
    if [table, strings].into_iter().any(|range| later.remove(whole_pages(range)).is_err()) {
        // The table is still in free memory, so the kernel would overwrite it.
        loaded.info.symbols = Symbols::default();
    }
}
