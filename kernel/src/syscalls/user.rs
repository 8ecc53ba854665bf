//! Pointers that the program passes to system calls, and the memory that they point to.
//!
//! Program and kernel share one address space. The kernel checks pointers for null and misalignment, and
//! lengths for overflow. It cannot check that the memory is valid: the callers guarantee this. It is part of
//! the contract (`# Safety` in `hermit-abi`) of the ABI's functions, which are `unsafe` for this reason.
//!
//! The types of this module carry that contract. The macros of the shims wrap each pointer in the type that a
//! `where` clause names. This costs nothing at run time. After that, safe code can use the pointer. The
//! memory that it points to is borrowed until the call returns ([`Call`]).

use core::ffi::{c_char, c_void};
use core::marker::PhantomData;
use core::mem::MaybeUninit;
use core::slice;
use core::sync::atomic::AtomicU32;

use hermit_abi::{dirent64, epoll_event, socklen_t, timespec};
use hermit_interface::Errno;
use hermit_io::{Argument, ValueResult};

/// A system call in progress. Its lifetime is that of the memory that the program's pointers refer to.
#[derive(Debug)]
pub(super) struct Call;

/// Pointer to an argument.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserPtr<'a, T> {
    pointer: *const T,
    call: PhantomData<&'a Call>,
}

impl<'a, T> UserPtr<'a, T> {
    /// # Safety
    ///
    /// `pointer` is null, or valid for reads of a `T` during the call.
    #[inline]
    pub(super) const unsafe fn new(_: &'a Call, pointer: *const T) -> Self {
        Self { pointer, call: PhantomData }
    }

    pub(super) const fn is_null(&self) -> bool {
        self.pointer.is_null()
    }

    /// Reads the value. Fails with `EFAULT` if the pointer is null or misaligned.
    #[inline]
    pub(super) fn read(&self) -> Result<T, Errno>
    where
        T: Copy,
    {
        check(self.pointer, 1)?;
        // SAFETY: not null and aligned (checked), so valid for a read by the contract of `new`.
        Ok(unsafe { self.pointer.read() })
    }
}

/// Pointer to the destination of a result.
#[derive(Debug)]
pub(super) struct UserOut<'a, T> {
    pointer: *mut T,
    call: PhantomData<&'a mut Call>,
}

impl<'a, T> UserOut<'a, T> {
    /// # Safety
    ///
    /// `pointer` is null, or valid for writes of a `T` during the call.
    #[inline]
    pub(super) const unsafe fn new(_: &'a Call, pointer: *mut T) -> Self {
        Self { pointer, call: PhantomData }
    }

    pub(super) const fn is_null(&self) -> bool {
        self.pointer.is_null()
    }

    /// Returns the destination. Fails with `EFAULT` if the pointer is null or misaligned.
    #[inline]
    pub(super) fn get_mut(&mut self) -> Result<&mut MaybeUninit<T>, Errno> {
        check(self.pointer, 1)?;
        // SAFETY: not null and aligned (checked), so valid for writes by the contract of `new`, and for reads
        // as uninitialised bytes. The `&mut Call` that `self` stands for excludes other accesses during the
        // call, and `self` is borrowed exclusively as long as the reference exists.
        Ok(unsafe { &mut *self.pointer.cast() })
    }

    /// Stores the result. Fails with `EFAULT` if the pointer is null or misaligned.
    #[inline]
    pub(super) fn write(self, value: T) -> Result<(), Errno> {
        check(self.pointer, 1)?;
        // SAFETY: not null and aligned (checked), so valid for a write by the contract of `new`.
        unsafe { self.pointer.write(value) };
        Ok(())
    }
}

/// Array to be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserSlice<'a, T> {
    start: *const T,
    len: usize,
    call: PhantomData<&'a Call>,
}

impl<'a, T> UserSlice<'a, T> {
    /// # Safety
    ///
    /// `start` is null, or valid for reads of `len` values that do not change during the call.
    #[inline]
    pub(super) const unsafe fn new(_: &'a Call, start: *const T, len: usize) -> Self {
        Self { start, len, call: PhantomData }
    }

    /// Number of values.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The values; `EFAULT` if there are any and the pointer is null or misaligned, `EINVAL` if the size
    /// overflows.
    #[inline]
    pub(super) fn get(&self) -> Result<&'a [T], Errno> {
        check(self.start, self.len)?;
        if self.len == 0 {
            return Ok(&[]);
        }
        // SAFETY: not null, aligned and of a size below `isize::MAX` (checked); valid for reads and unchanged
        // during the call, which is `'a`, by the contract of `new`.
        Ok(unsafe { slice::from_raw_parts(self.start, self.len) })
    }
}

impl<'a> From<UserSlice<'a, u8>> for Argument<'a> {
    #[inline]
    fn from(bytes: UserSlice<'a, u8>) -> Self {
        Self::new(bytes.len, bytes.get())
    }
}

impl<'a> UserSlice<'a, timespec> {
    /// Wraps an array of two times: the time of the last read and of the last change of a file.
    ///
    /// # Safety
    ///
    /// `start` is null, or valid for reads of two values that do not change during the call.
    #[inline]
    pub(super) const unsafe fn pair(call: &'a Call, start: *const timespec) -> Self {
        // SAFETY: the requirement is the same.
        unsafe { Self::new(call, start, 2) }
    }

    /// [`Self::get`]; `None` if the pointer is null.
    pub(super) fn get_if_some(&self) -> Result<Option<&'a [timespec]>, Errno> {
        if self.start.is_null() { Ok(None) } else { self.get().map(Some) }
    }
}

impl<'a> UserSlice<'a, u8> {
    /// Wraps the bytes that an untyped pointer refers to.
    ///
    /// # Safety
    ///
    /// `start` is null, or valid for reads of `len` bytes that do not change during the call.
    #[inline]
    pub(super) const unsafe fn bytes(call: &'a Call, start: *const c_void, len: usize) -> Self {
        // SAFETY: the requirement is the same.
        unsafe { Self::new(call, start.cast(), len) }
    }

    /// Wraps the bytes of a structure whose size the program passes: a socket address, or the value of an
    /// option.
    ///
    /// # Safety
    ///
    /// `start` is null, or valid for reads of `size` bytes that do not change during the call.
    #[inline]
    pub(super) const unsafe fn sized<T>(call: &'a Call, start: *const T, size: socklen_t) -> Self {
        // SAFETY: the requirement is the same.
        unsafe { Self::new(call, start.cast(), size as usize) }
    }
}

/// Array to be read and written.
#[derive(Debug)]
pub(super) struct UserSliceMut<'a, T> {
    start: *mut T,
    len: usize,
    call: PhantomData<&'a mut Call>,
}

impl<'a, T> UserSliceMut<'a, T> {
    /// # Safety
    ///
    /// `start` is null, or valid for reads and writes of `len` values that no other code accesses during the
    /// call.
    #[inline]
    pub(super) const unsafe fn new(_: &'a Call, start: *mut T, len: usize) -> Self {
        Self { start, len, call: PhantomData }
    }

    pub(super) const fn is_null(&self) -> bool {
        self.start.is_null()
    }

    /// The values; `EFAULT` if there are any and the pointer is null or misaligned, `EINVAL` if the size
    /// overflows.
    #[inline]
    pub(super) fn get(self) -> Result<&'a mut [T], Errno> {
        check(self.start.cast_const(), self.len)?;
        if self.len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: not null, aligned and of a size below `isize::MAX` (checked); valid and not accessed
        // otherwise during the call, which is `'a`, by the contract of `new`. `self` is consumed, so there is
        // no second reference: one of `get_mut` has ended.
        Ok(unsafe { slice::from_raw_parts_mut(self.start, self.len) })
    }

    /// [`Self::get`], borrowed.
    #[inline]
    pub(super) fn get_mut(&mut self) -> Result<&mut [T], Errno> {
        check(self.start.cast_const(), self.len)?;
        if self.len == 0 {
            return Ok(&mut []);
        }
        // SAFETY: not null, aligned and of a size below `isize::MAX` (checked); valid and not accessed
        // otherwise during the call, which outlives the borrow of `self`, by the contract of `new`. `self` is
        // borrowed exclusively as long as the reference exists, so there is no second one.
        Ok(unsafe { slice::from_raw_parts_mut(self.start, self.len) })
    }
}

/// Bytes to be written; they need not be initialised.
pub(super) type UserBuffer<'a> = UserSliceMut<'a, MaybeUninit<u8>>;

impl<'a> UserBuffer<'a> {
    /// [`UserSliceMut::new`] for bytes.
    ///
    /// # Safety
    ///
    /// `start` is null, or valid for writes of `len` bytes that no other code accesses during the call.
    #[inline]
    pub(super) const unsafe fn buffer(call: &'a Call, start: *mut u8, len: usize) -> Self {
        // SAFETY: memory that is valid for writes is valid for reads as uninitialised bytes.
        unsafe { Self::new(call, start.cast(), len) }
    }
}

impl<'a> UserSliceMut<'a, MaybeUninit<epoll_event>> {
    /// [`Self::new`] for events, at most `max`; none if that is negative.
    ///
    /// # Safety
    ///
    /// `start` is null, or valid for writes of `max` events that no other code accesses during the call.
    #[inline]
    pub(super) const unsafe fn events(call: &'a Call, start: *mut epoll_event, max: i32) -> Self {
        let len = if max < 0 { 0 } else { max.cast_unsigned() as usize };
        // SAFETY: memory that is valid for writes is valid for reads as uninitialised events.
        unsafe { Self::new(call, start.cast(), len) }
    }
}

impl<'a> UserBuffer<'a> {
    /// [`Self::buffer`] for entries of a directory, `len` bytes in all.
    ///
    /// # Safety
    ///
    /// As for [`Self::buffer`].
    #[inline]
    pub(super) const unsafe fn entries(call: &'a Call, start: *mut dirent64, len: usize) -> Self {
        // SAFETY: valid for writes of `len` bytes that no other code accesses, by the contract of this
        // function.
        unsafe { Self::buffer(call, start.cast(), len) }
    }
}

/// Text that ends with a zero byte.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserText<'a> {
    start: *const u8,
    call: PhantomData<&'a Call>,
}

impl<'a> UserText<'a> {
    /// # Safety
    ///
    /// `start` is null, or valid for reads up to a zero byte, and they do not change during the call.
    #[inline]
    pub(super) const unsafe fn new(_: &'a Call, start: *const c_char) -> Self {
        Self { start: start.cast(), call: PhantomData }
    }

    /// [`Self::get`]; `None` if the pointer is null.
    pub(super) fn get_if_some(&self, max_len: usize) -> Result<Option<&'a [u8]>, Errno> {
        if self.start.is_null() { Ok(None) } else { self.get(max_len).map(Some) }
    }

    /// Returns the text without the zero byte. Fails with `ENAMETOOLONG` if the text has more than `max_len`
    /// bytes, and with `EFAULT` if the pointer is null.
    pub(super) fn get(&self, max_len: usize) -> Result<&'a [u8], Errno> {
        let text = self.get_prefix(max_len + 1)?;
        if text.len() > max_len { Err(Errno::ENAMETOOLONG) } else { Ok(text) }
    }

    /// Returns the text without the zero byte, or its first `max_len` bytes if it is longer. Reads nothing
    /// after the zero byte. Fails with `EFAULT` if the pointer is null.
    pub(super) fn get_prefix(&self, max_len: usize) -> Result<&'a [u8], Errno> {
        check(self.start, max_len)?;
        // SAFETY: `find` asks for indices in ascending order and stops at the first zero byte, so all bytes
        // before this one are part of the text, and the byte is part of it or its end: valid for a read by
        // the contract of `new`.
        let is_end = |index: &usize| unsafe { self.start.wrapping_add(*index).read() } == 0;
        let len = (0..max_len).find(is_end).unwrap_or(max_len);
        if len == 0 {
            return Ok(&[]);
        }
        // SAFETY: not null and not too long (checked); all of these bytes have just been read, and they do
        // not change during the call, which is `'a`, by the contract of `new`.
        Ok(unsafe { slice::from_raw_parts(self.start, len) })
    }
}

/// Pointer to a 32-bit word that threads access atomically: a futex or a semaphore.
#[derive(Clone, Copy, Debug)]
pub(super) struct UserAtomic<'a> {
    pointer: *mut u32,
    call: PhantomData<&'a Call>,
}

impl<'a> UserAtomic<'a> {
    /// # Safety
    ///
    /// `pointer` is null or misaligned, or valid for atomic reads and writes of 4 bytes during the call, and
    /// all other accesses meanwhile are atomic, too.
    #[inline]
    pub(super) const unsafe fn new<T>(_: &'a Call, pointer: *mut T) -> Self {
        Self { pointer: pointer.cast(), call: PhantomData }
    }

    /// Returns the word. Fails with `EINVAL` if the pointer is null or misaligned.
    #[inline]
    pub(super) fn get(&self) -> Result<&'a AtomicU32, Errno> {
        if self.pointer.is_null() || !self.pointer.is_aligned() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: aligned (checked), so valid for atomic accesses only during the call, which is `'a`, by the
        // contract of `new`.
        Ok(unsafe { AtomicU32::from_ptr(self.pointer) })
    }
}

/// A value-result argument: the destination of a result, and a pointer to the size of the destination. The
/// call replaces this size by the size of the result.
#[derive(Debug)]
pub(super) struct UserResult<'a> {
    destination: *mut c_void,
    size: *mut socklen_t,
    call: PhantomData<&'a mut Call>,
}

impl<'a> UserResult<'a> {
    /// # Safety
    ///
    /// `size` is null, or valid for reads and writes during the call; `destination` is null, or valid for
    /// writes of `*size` bytes. No other code accesses either.
    #[inline]
    pub(super) const unsafe fn new<T>(_: &'a Call, destination: *mut T, size: *mut socklen_t) -> Self {
        Self { destination: destination.cast(), size, call: PhantomData }
    }

    /// Returns the argument, or `None` if the program does not ask for the result.
    pub(super) fn if_wanted(&mut self) -> Option<&mut dyn ValueResult> {
        if self.destination.is_null() || self.size.is_null() { None } else { Some(self) }
    }

    fn room(&self) -> Result<socklen_t, Errno> {
        check(self.size.cast_const(), 1)?;
        // SAFETY: not null and aligned (checked), so valid for a read by the contract of `new`.
        Ok(unsafe { self.size.read() })
    }

    fn set_size(&self, size: usize) -> Result<(), Errno> {
        let size = socklen_t::try_from(size).map_err(|_| Errno::EOVERFLOW)?;
        // SAFETY: the callers of `store`, the only caller of this, have called `room`, which has found the
        // pointer not null and aligned, so it is valid for a write by the contract of `new`.
        unsafe { self.size.write(size) };
        Ok(())
    }

    /// Stores as much of a result as the destination has room for, and the size of the whole result.
    fn store(&mut self, result: &[u8], room: usize) -> Result<(), Errno> {
        let destination: *mut MaybeUninit<u8> = self.destination.cast();
        check(destination.cast_const(), room)?;
        let stored = result.get(..room).unwrap_or(result);
        if !stored.is_empty() {
            // SAFETY: not null (checked, for `room` is not 0); valid for writes of `room` bytes, and not
            // accessed otherwise, by the contract of `new`. `self` is borrowed exclusively for longer than
            // the reference exists, so there is no second one.
            let destination = unsafe { slice::from_raw_parts_mut(destination, stored.len()) };
            destination.write_copy_of_slice(stored);
        }
        self.set_size(result.len())
    }
}

impl ValueResult for UserResult<'_> {
    fn write(&mut self, result: &[u8]) -> Result<(), Errno> {
        let room = self.room()? as usize;
        if room < result.len() { Err(Errno::EINVAL) } else { self.store(result, room) }
    }

    fn write_truncated(&mut self, result: &[u8]) -> Result<(), Errno> {
        let room = self.room()?;
        if room.cast_signed() < 0 { Err(Errno::EINVAL) } else { self.store(result, room as usize) }
    }
}

/// Checks a pointer to `len` values. Fails with `EINVAL` if their size exceeds `isize::MAX`, and with
/// `EFAULT` if `len` is not 0 and the pointer is null or misaligned.
#[inline]
pub(super) fn check<T>(pointer: *const T, len: usize) -> Result<(), Errno> {
    let fits = len.checked_mul(size_of::<T>()).is_some_and(|size| isize::try_from(size).is_ok());
    if !fits {
        return Err(Errno::EINVAL);
    }
    if len > 0 && (pointer.is_null() || !pointer.is_aligned()) {
        return Err(Errno::EFAULT);
    }
    Ok(())
}
