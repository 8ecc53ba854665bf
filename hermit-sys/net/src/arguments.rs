//! Pointers that the kernel passes to the stack's functions.
//!
//! The contract of [`hermit_interface::net::Calls`] defines what each pointer refers to. The macro of `calls`
//! converts each pointer to a reference with one of these functions. The reference is valid until the call
//! returns ([`Call`]).
#![expect(unsafe_code, reason = "the kernel passes raw pointers")]

use core::ffi::c_void;
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::slice;

use crate::kernel::NetworkStack;

/// A call in progress: the lifetime of references made from the kernel's pointers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a>(PhantomData<&'a ()>);

impl<'a> Call<'a> {
    /// Creates the call whose function has this local variable.
    pub(crate) const fn new(_: &'a ()) -> Self {
        Self(PhantomData)
    }
}

/// Returns the stack itself.
///
/// # Safety
///
/// `stack` is what `hermit_net_start` has returned, and the kernel holds the lock around the stack during the
/// call.
pub(crate) const unsafe fn stack<'a>(_: Call<'a>, stack: *mut c_void) -> &'a mut NetworkStack {
    // SAFETY: `hermit_net_start` has leaked a box of this type, so the memory is valid forever. Each function
    // of the table makes one reference, during its call, and the kernel's lock admits one call at a time.
    unsafe { &mut *stack.cast() }
}

/// Returns a value to be read.
///
/// # Safety
///
/// `pointer` is valid for reads of a `T` that does not change during the call.
pub(crate) const unsafe fn value<'a, T>(_: Call<'a>, pointer: *const T) -> &'a T {
    // SAFETY: the requirement is the same, for the lifetime of the call.
    unsafe { &*pointer }
}

/// Returns a value to be changed.
///
/// # Safety
///
/// `pointer` is valid for reads and writes of a `T` that no other code accesses during the call.
pub(crate) const unsafe fn value_mut<'a, T>(_: Call<'a>, pointer: *mut T) -> &'a mut T {
    // SAFETY: the requirement is the same, for the lifetime of the call.
    unsafe { &mut *pointer }
}

/// Returns a value to be read, which may be absent.
///
/// # Safety
///
/// `pointer` is null, or valid for reads of a `T` that does not change during the call.
pub(crate) const unsafe fn optional<'a, T>(_: Call<'a>, pointer: *const T) -> Option<&'a T> {
    // SAFETY: the requirement is the same, for the lifetime of the call.
    unsafe { pointer.as_ref() }
}

/// Returns values to be read.
///
/// # Safety
///
/// `start` is not null and valid for reads of `len` values that do not change during the call.
pub(crate) const unsafe fn slice<'a, T>(_: Call<'a>, start: *const T, len: usize) -> &'a [T] {
    // SAFETY: the requirement is the same, for the lifetime of the call; the kernel makes pointer and length
    // from a slice, so they are aligned and not too long.
    unsafe { slice::from_raw_parts(start, len) }
}

/// Returns values to be written.
///
/// # Safety
///
/// `start` is not null and valid for reads and writes of `len` values that no other code accesses during the
/// call.
pub(crate) const unsafe fn slice_mut<'a, T>(_: Call<'a>, start: *mut T, len: usize) -> &'a mut [T] {
    // SAFETY: the requirement is the same, for the lifetime of the call; the kernel makes pointer and length
    // from a slice, so they are aligned and not too long.
    unsafe { slice::from_raw_parts_mut(start, len) }
}

/// Returns bytes to be written, which may be uninitialised.
///
/// # Safety
///
/// `start` is not null and valid for writes of `len` bytes that no other code accesses during the call.
pub(crate) const unsafe fn buffer<'a>(
    call: Call<'a>,
    start: *mut u8,
    len: usize,
) -> &'a mut [MaybeUninit<u8>] {
    // SAFETY: memory that is valid for writes is valid for reads as uninitialised bytes.
    unsafe { slice_mut(call, start.cast(), len) }
}

/// Place for a result.
#[derive(Debug)]
pub(crate) struct Out<'a, T> {
    pointer: *mut T,
    call: PhantomData<&'a mut T>,
}

/// Returns the place for a result that the kernel may not ask for.
///
/// # Safety
///
/// `pointer` is null, or valid for writes of a `T` during the call.
pub(crate) const unsafe fn out<'a, T>(_: Call<'a>, pointer: *mut T) -> Out<'a, T> {
    Out { pointer, call: PhantomData }
}

impl<T> Out<'_, T> {
    /// Stores the result, if the kernel asks for it.
    pub(crate) fn write(self, value: T) {
        if !self.pointer.is_null() {
            // SAFETY: not null (checked), so valid for a write by the contract of `out`.
            unsafe { self.pointer.write(value) };
        }
    }
}
