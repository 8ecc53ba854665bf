//! Memory: frames, addresses, the heap, stacks, thread-local storage.
//!
//! Physical memory is handed out in ranges of frames. What the loader has not mapped yet of it is mapped when it
//! is first used, so nothing here costs more on a machine with more memory.

mod heap;
mod paging;
pub mod stack;
mod thread_locals;

use core::ptr::{NonNull, with_exposed_provenance_mut};

use hermit_interface::boot_info::{Image, Parsed, Tls};
use hermit_interface::to_usize;
use spin::Once;

pub use heap::{allocate, allocate_zeroed, deallocate, reallocate};
pub use stack::Stack;
pub use thread_locals::ThreadLocals;

use crate::arch::stacks;
use paging::Memory;

static TLS: Once<Tls> = Once::new();
static IMAGE: Once<Image> = Once::new();

/// There is not enough memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfMemory;

/// Takes over the page tables and the free memory.
pub(crate) fn init(info: &Parsed<'_>) {
    TLS.call_once(|| info.fixed.tls);
    IMAGE.call_once(|| info.fixed.image);
    // SAFETY: the loader's contract (`hermit_interface::boot_info`) says what is mapped where and what is free,
    // and this runs once.
    unsafe { paging::init(info) };
    paging::with(|memory| {
        memory.forget_loader();
        stacks::all().for_each(|stack| memory.unmap(stack.guard));
    });
}

/// Maps a page of device registers, for good.
pub(crate) fn map_device_page(physical: u64) -> Result<NonNull<u32>, OutOfMemory> {
    let address = paging::with(|memory: &mut Memory| memory.map_device(physical))?;
    NonNull::new(with_exposed_provenance_mut(to_usize(address))).ok_or(OutOfMemory)
}

/// Where the image is.
#[must_use]
pub fn image() -> Image {
    IMAGE.get().copied().unwrap_or_default()
}

const _: () = assert!(stacks::STACK_TOP.is_multiple_of(4096), "a stack consists of whole pages");
