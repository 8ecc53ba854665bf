//! The global allocator: the kernel's heap.
#![expect(unsafe_code, reason = "the kernel's functions are known to the linker alone")]

use core::alloc::{GlobalAlloc, Layout};

struct KernelHeap;

// SAFETY: the functions of `hermit-abi` allocate blocks that have the size and alignment asked for, overlap
// no other block and stay until they are freed, or return null; they do not unwind.
unsafe impl GlobalAlloc for KernelHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: callers of `GlobalAlloc` pass a layout of non-zero size; a layout's alignment is a power of
        // two.
        unsafe { hermit_abi::malloc(layout.size(), layout.align()) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: callers of `GlobalAlloc` pass a layout of non-zero size; a layout's alignment is a power of
        // two.
        unsafe { hermit_abi::alloc_zeroed(layout.size(), layout.align()) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: callers of `GlobalAlloc` pass a block of this allocator with the layout that it was
        // allocated with, and do not use it any more; all of its blocks come from this heap.
        unsafe { hermit_abi::free(pointer, layout.size(), layout.align()) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: callers of `GlobalAlloc` pass a block of this allocator with the layout that it was
        // allocated with, and a non-zero size; all of its blocks come from this heap.
        unsafe { hermit_abi::realloc(pointer, layout.size(), layout.align(), new_size) }
    }
}

#[global_allocator]
static HEAP: KernelHeap = KernelHeap;
