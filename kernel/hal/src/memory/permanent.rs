//! Values that are never freed, in memory of their own ([`PermanentBlocks`]).

use core::alloc::Layout;
use core::ptr::{NonNull, with_exposed_provenance_mut};

use hermit_interface::address::AddressRange;
use hermit_interface::to_usize;
use hermit_memory::permanent::PermanentBlocks;

use super::paging;
use crate::sync::SpinLock;

static BLOCKS: SpinLock<PermanentBlocks> = SpinLock::new(PermanentBlocks::new());

/// Moves a value, aligned to at most a page, into memory that is never freed; `None` if there is no memory.
pub fn leak<T>(value: T) -> Option<&'static T> {
    let layout = Layout::new::<T>();
    let start = allocate(layout.size() as u64, layout.align() as u64)?;
    let block = NonNull::new(with_exposed_provenance_mut::<T>(to_usize(start)))?;
    // SAFETY: `allocate` has returned memory of this size and alignment, which is mapped and has no other
    // user.
    unsafe { block.write(value) };
    // SAFETY: the value was just written, is never moved, changed or freed, and from here on only shared
    // references to it exist.
    Some(unsafe { block.as_ref() })
}

/// Makes `count` values that are never freed. Returns `None` if there is no memory. The alignment of the
/// values is at most a page.
pub fn leak_slice<T>(count: usize, mut make: impl FnMut() -> T) -> Option<&'static [T]> {
    let layout = Layout::array::<T>(count).ok()?;
    let start = allocate(layout.size() as u64, layout.align() as u64)?;
    let first = NonNull::new(with_exposed_provenance_mut::<T>(to_usize(start)))?;
    for index in 0..count {
        // SAFETY: `allocate` has returned memory for `count` values, and the index is less than `count`.
        let place = unsafe { first.add(index) };
        // SAFETY: this memory is mapped, aligned for the type, and has no other user.
        unsafe { place.write(make()) };
    }
    // SAFETY: the loop has written all `count` values. They are never moved, changed or freed, and from here
    // on only shared references to them exist.
    Some(unsafe { NonNull::slice_from_raw_parts(first, count).as_ref() })
}

/// Allocates memory that is never freed. Returns its address.
fn allocate(size: u64, align: u64) -> Option<u64> {
    let mut blocks = BLOCKS.lock();
    if let Some(start) = blocks.allocate(size, align) {
        return Some(start);
    }
    let new_region = |size: u64| {
        let start = paging::with(|memory| memory.allocate(size, 0)).ok()?;
        Some(AddressRange { start, end: start + size })
    };
    let region = blocks.region_sizes(size)?.into_iter().find_map(new_region)?;
    free(blocks.set_region(region));
    blocks.allocate(size, align)
}

/// Frees the whole pages of the current region that hold no values yet.
pub(super) fn reclaim() {
    let unused = BLOCKS.lock().take_unused();
    free(unused);
}

fn free(range: AddressRange) {
    if range.size() > 0 {
        paging::with(|memory| memory.free(range.start, range.size()));
    }
}
