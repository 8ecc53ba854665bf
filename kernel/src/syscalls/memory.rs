//! Memory: the heap. Mappings follow.

use core::alloc::Layout;
use core::ptr;

use hermit_hal::memory;

use super::{export_plain, unsupported};

fn allocate(size: usize, align: usize) -> *mut u8 {
    Layout::from_size_align(size, align).map_or(ptr::null_mut(), memory::allocate)
}

/// # Safety
///
/// As for [`memory::deallocate`].
unsafe fn free(pointer: *mut u8, size: usize, align: usize) {
    if let Ok(layout) = Layout::from_size_align(size, align) {
        // SAFETY: the caller's promise.
        unsafe { memory::deallocate(pointer, layout) };
    }
}

export_plain! {
    fn sys_malloc as malloc(size: usize, align: usize) -> *mut u8 {
        allocate(size, align)
    }

    fn sys_alloc as alloc(size: usize, align: usize) -> *mut u8 {
        allocate(size, align)
    }

    fn sys_alloc_zeroed as alloc_zeroed(size: usize, align: usize) -> *mut u8 {
        Layout::from_size_align(size, align).map_or(ptr::null_mut(), memory::allocate_zeroed)
    }

    fn sys_realloc as realloc(pointer: *mut u8, size: usize, align: usize, new_size: usize) -> *mut u8 {
        match Layout::from_size_align(size, align) {
            // SAFETY: the program got the pointer from this heap with this layout.
            Ok(layout) => unsafe { memory::reallocate(pointer, layout, new_size) },
            Err(_) => ptr::null_mut(),
        }
    }

    fn sys_free as free(pointer: *mut u8, size: usize, align: usize) {
        // SAFETY: the program got the pointer from this heap with this layout.
        unsafe { free(pointer, size, align) }
    }

    fn sys_dealloc as dealloc(pointer: *mut u8, size: usize, align: usize) {
        // SAFETY: the program got the pointer from this heap with this layout.
        unsafe { free(pointer, size, align) }
    }

    fn sys_getpagesize as getpagesize() -> i32 {
        4096
    }
}

unsupported! {
    ENOSYS;
    sys_mmap as mmap(usize, u32, &mut *mut u8) -> i32,
    sys_munmap as munmap(*mut u8, usize) -> i32,
    sys_mprotect as mprotect(*mut u8, usize, u32) -> i32,
}
