//! Arguments of calls that refer to memory of the program.

use hermit_interface::Errno;

/// Bytes that a program passes to a call, or the error of an invalid pointer. The error is reported only when
/// the bytes are used, because on Linux the checks of other arguments come first.
#[derive(Clone, Copy, Debug)]
pub struct Argument<'a> {
    len: usize,
    bytes: Result<&'a [u8], Errno>,
}

impl<'a> Argument<'a> {
    /// An argument of `len` bytes.
    #[inline]
    #[must_use]
    pub const fn new(len: usize, bytes: Result<&'a [u8], Errno>) -> Self {
        Self { len, bytes }
    }

    /// The bytes.
    ///
    /// # Errors
    ///
    /// `EFAULT` if the pointer is invalid.
    #[inline]
    pub const fn get(&self) -> Result<&'a [u8], Errno> {
        self.bytes
    }

    /// Returns the bytes of a structure that has `size` bytes.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there are fewer bytes, else the error of [`Self::get`].
    pub const fn structure(&self, size: usize) -> Result<&'a [u8], Errno> {
        if self.len < size { Err(Errno::EINVAL) } else { self.bytes }
    }
}

impl<'a> From<&'a [u8]> for Argument<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::new(bytes.len(), Ok(bytes))
    }
}

/// A value-result argument: memory of the program for a result, and a size. Before the call, it is the size
/// of the memory. After the call, it is the size of the result.
pub trait ValueResult {
    /// Stores a result and its size.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the memory is too small, `EFAULT` if a pointer is invalid.
    fn write(&mut self, result: &[u8]) -> Result<(), Errno>;

    /// Stores as much of a result as the memory can hold, and the size of the whole result.
    ///
    /// # Errors
    ///
    /// `EINVAL` if the size is negative as an `i32`, `EFAULT` if a pointer is invalid.
    fn write_truncated(&mut self, result: &[u8]) -> Result<(), Errno>;
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::Argument;
    use hermit_interface::Errno;

    #[test]
    fn size_of_a_structure_is_checked_before_its_pointer() {
        let invalid = Argument::new(4, Err(Errno::EFAULT));
        assert_eq!((invalid.structure(5), invalid.structure(4)), (Err(Errno::EINVAL), Err(Errno::EFAULT)));
        assert_eq!(invalid.get(), Err(Errno::EFAULT));
        let valid = Argument::from(&b"abc"[..]);
        assert_eq!((valid.structure(4), valid.structure(2)), (Err(Errno::EINVAL), Ok(&b"abc"[..])));
    }
}
