//! The names of the image's functions, for the kernel to print when something goes wrong.

use hermit_boot::{FreeMemory, Loaded};
use hermit_interface::boot_info::{Region, Symbols};
use hermit_interface::image::Image;

use crate::memory::{self, Identity, whole_pages};

/// One part in so many of the memory may hold names.
const SHARE: u64 = 8;

/// Keeps the symbols where they lie in the image's file, if the machine has memory to spare for them; `later` is
/// what will be free once the kernel runs, the file included. Without symbols the kernel prints numbers, so nothing
/// here is an error.
pub(crate) fn keep(
    image: &Image<'_>,
    loaded: &mut Loaded,
    memory: &mut Identity,
    free: &mut FreeMemory,
    later: &mut FreeMemory,
) {
    let Some(symbols) = image.symbols() else { return };
    let [table, strings] = [symbols.table, symbols.strings].map(memory::range_of);
    if table.size() + strings.size() > (free.total() + later.total()) / SHARE {
        return;
    }
    let physical =
        |range: hermit_interface::address::AddressRange| Region { start: range.start, size: range.size() };
    let symbols = Symbols { table: physical(table), strings: physical(strings) };
    if loaded.keep_symbols(memory, free, symbols).is_err() {
        return;
    }
    if [table, strings].into_iter().any(|range| later.remove(whole_pages(range)).is_err()) {
        // They would be overwritten.
        loaded.info.symbols = Symbols::default();
    }
}
