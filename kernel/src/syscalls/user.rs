//! What the program's pointers point at.
//!
//! Program and kernel share the address space, so a pointer can only be checked for what is wrong with it in
//! itself; that it is valid as the ABI says is the program's promise, as with any `unsafe` function.

use core::ffi::c_char;
use core::mem::MaybeUninit;
use core::slice;

use hermit_interface::Errno;

/// The program's bytes, to be read.
///
/// # Safety
///
/// Null, or valid for reads of `len` bytes that do not change as long as the result lives.
pub(super) unsafe fn bytes<'a>(pointer: *const u8, len: usize) -> Result<&'a [u8], Errno> {
    check(pointer, len)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller's promise; not null and not too long (checked).
    Ok(unsafe { slice::from_raw_parts(pointer, len) })
}

/// The first `limit` bytes, at most, of the program's text, which ends with 0. Nothing behind its end is read.
///
/// # Safety
///
/// Null, or valid for reads up to the end or of `limit` bytes, which do not change as long as the result lives.
pub(super) unsafe fn text<'a>(pointer: *const c_char, limit: usize) -> Result<&'a [u8], Errno> {
    check(pointer, limit)?;
    let start = pointer.cast::<u8>();
    // SAFETY: the caller's promise: no byte before this one was the end.
    let is_end = |index: &usize| unsafe { start.wrapping_add(*index).read() } == 0;
    let len = (0..limit).find(is_end).unwrap_or(limit);
    // SAFETY: the caller's promise: so much was just read.
    unsafe { bytes(start, len) }
}

/// The program's memory, to be filled; it need not be initialised.
///
/// # Safety
///
/// Null, or valid for writes of `len` bytes that nobody else accesses as long as the result lives.
pub(super) unsafe fn buffer<'a>(pointer: *mut u8, len: usize) -> Result<&'a mut [MaybeUninit<u8>], Errno> {
    check(pointer, len)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: the caller's promise; not null and not too long (checked).
    Ok(unsafe { slice::from_raw_parts_mut(pointer.cast::<MaybeUninit<u8>>(), len) })
}

/// The program's array, to be read.
///
/// # Safety
///
/// Null, or valid for reads of `len` values that do not change as long as the result lives.
pub(super) unsafe fn array<'a, T>(pointer: *const T, len: usize) -> Result<&'a [T], Errno> {
    check(pointer, len)?;
    if len == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller's promise; not null, aligned and not too long (checked).
    Ok(unsafe { slice::from_raw_parts(pointer, len) })
}

/// The program's array, to be read and written.
///
/// # Safety
///
/// Null, or valid for reads and writes of `len` values that nobody else accesses as long as the result lives.
pub(super) unsafe fn array_mut<'a, T>(pointer: *mut T, len: usize) -> Result<&'a mut [T], Errno> {
    check(pointer, len)?;
    if len == 0 {
        return Ok(&mut []);
    }
    // SAFETY: the caller's promise; not null, aligned and not too long (checked).
    Ok(unsafe { slice::from_raw_parts_mut(pointer, len) })
}

/// Reads the program's value.
///
/// # Safety
///
/// Null, or valid for a read.
pub(super) unsafe fn read<T: Copy>(pointer: *const T) -> Result<T, Errno> {
    check(pointer, 1)?;
    // SAFETY: the caller's promise; not null and aligned (checked).
    Ok(unsafe { pointer.read() })
}

/// Stores a value for the program.
///
/// # Safety
///
/// Null, or valid for a write.
pub(super) unsafe fn write<T>(pointer: *mut T, value: T) -> Result<(), Errno> {
    check(pointer.cast_const(), 1)?;
    // SAFETY: the caller's promise; not null and aligned (checked).
    unsafe { pointer.write(value) };
    Ok(())
}

fn check<T>(pointer: *const T, len: usize) -> Result<(), Errno> {
    let fits = len.checked_mul(size_of::<T>()).is_some_and(|size| isize::try_from(size).is_ok());
    if !fits {
        return Err(Errno::EINVAL);
    }
    if len > 0 && (pointer.is_null() || !pointer.is_aligned()) {
        return Err(Errno::EFAULT);
    }
    Ok(())
}
