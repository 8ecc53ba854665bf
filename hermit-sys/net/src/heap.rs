//! Memory, from the kernel's heap.
#![expect(unsafe_code, reason = "the kernel's functions are known to the linker alone")]

use core::alloc::{GlobalAlloc, Layout};

/// The kernel's heap.
struct Heap;

// SAFETY: these are the functions that programs allocate with, which promise what the trait asks for.
unsafe impl GlobalAlloc for Heap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise: the size is not 0.
        unsafe { hermit_abi::malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        unsafe { hermit_abi::alloc_zeroed(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise: it is a block of this layout.
        unsafe { hermit_abi::free(pointer, layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: as above; the new size is not 0.
        unsafe { hermit_abi::realloc(pointer, layout.size(), layout.align(), new_size) }
    }
}

#[global_allocator]
static HEAP: Heap = Heap;
