//! Memory: the heap, and mappings of whole pages.

use core::ptr;

use hermit_abi::{
    PROT_EXEC, PROT_NONE, PROT_READ, PROT_WRITE, STRING_MOVES_BYTES, STRING_MOVES_NONE, STRING_MOVES_VECTORS,
    STRING_MOVES_WORDS,
};
use hermit_hal::cpus::{self, StringMoves};
use hermit_hal::memory::mapping::{self, Access, MappingError};
use hermit_hal::memory::{self, OutOfMemory};
use hermit_interface::{Errno, to_usize};

use super::{export, export_plain};
use crate::threads::lifecycle::reclaim;

export_plain! {
    fn sys_malloc as malloc(size: usize, align: usize) -> *mut u8 {
        memory::allocate(size, align)
    }

    fn sys_alloc as alloc(size: usize, align: usize) -> *mut u8 {
        memory::allocate(size, align)
    }

    fn sys_alloc_zeroed as alloc_zeroed(size: usize, align: usize) -> *mut u8 {
        memory::allocate_zeroed(size, align)
    }

    fn sys_realloc as realloc(pointer: *mut u8, size: usize, align: usize, new_size: usize) -> *mut u8 {
        // SAFETY: the ABI requires of the caller that the block is allocated from this heap, with this size
        // and alignment, and that it is not used any more if the result is not null.
        unsafe { memory::reallocate(pointer, size, align, new_size) }
    }

    fn sys_free as free(pointer: *mut u8, size: usize, align: usize) {
        // SAFETY: the ABI requires of the caller that the block is allocated from this heap, with this size
        // and alignment, and that it is not used any more.
        unsafe { memory::deallocate(pointer, size, align) }
    }

    fn sys_dealloc as dealloc(pointer: *mut u8, size: usize, align: usize) {
        // SAFETY: the ABI requires of the caller that the block is allocated from this heap, with this size
        // and alignment, and that it is not used any more.
        unsafe { memory::deallocate(pointer, size, align) }
    }

    fn sys_heap_lock_count as heap_lock_count() -> u64 {
        memory::heap_lock_count()
    }

    fn sys_string_moves as string_moves() -> u32 {
        let moves = match cpus::string_moves() {
            StringMoves::None => STRING_MOVES_NONE,
            StringMoves::Words => STRING_MOVES_WORDS,
            StringMoves::Bytes => STRING_MOVES_BYTES,
        };
        moves | if cpus::has_wide_vectors() { STRING_MOVES_VECTORS } else { 0 }
    }

    fn sys_getpagesize as getpagesize() -> i32 {
        4096
    }
}

/// Converts `PROT_` bits to an access. Fails with `EACCES` for memory that would be both writable and
/// executable.
fn access(bits: u32) -> Result<Access, Errno> {
    if bits & !(PROT_READ | PROT_WRITE | PROT_EXEC) != 0 {
        return Err(Errno::EINVAL);
    }
    match (bits & PROT_WRITE != 0, bits & PROT_EXEC != 0) {
        (true, true) => Err(Errno::EACCES),
        (true, false) => Ok(Access::Write),
        (false, true) => Ok(Access::Execute),
        (false, false) if bits == PROT_NONE => Ok(Access::None),
        (false, false) => Ok(Access::Read),
    }
}

fn mapping_error(error: MappingError) -> Errno {
    match error {
        MappingError::NotMapped => Errno::EINVAL,
        MappingError::OutOfMemory => Errno::ENOMEM,
    }
}

export! {
    fn sys_mmap as mmap(size: usize, prot_flags: u32, ret: &mut *mut u8) -> i32 {
        let access = access(prot_flags)?;
        if size == 0 {
            return Err(Errno::EINVAL);
        }
        let map = || mapping::map(size as u64, access);
        let start = map().or_else(|OutOfMemory| {
            reclaim();
            map()
        });
        let start = start.map_err(|OutOfMemory| Errno::ENOMEM)?;
        *ret = ptr::with_exposed_provenance_mut(to_usize(start));
        Ok(0)
    }

    fn sys_munmap as munmap(ptr: *mut u8, size: usize) -> i32 {
        // SAFETY: the ABI requires of the caller that the memory is not used any more.
        unsafe { mapping::unmap(ptr.addr() as u64, size as u64) }.map_err(mapping_error)?;
        Ok(0)
    }

    fn sys_mprotect as mprotect(ptr: *mut u8, size: usize, prot_flags: u32) -> i32 {
        mapping::protect(ptr.addr() as u64, size as u64, access(prot_flags)?).map_err(mapping_error)?;
        Ok(0)
    }
}
