//! The caller's buffer of a read, which may be uninitialised memory.

use core::mem::MaybeUninit;

/// A write-only buffer that is filled from the front, as `std::io::BorrowedBuf`: safe over uninitialised memory.
#[derive(Debug)]
pub struct ReadBuffer<'a> {
    bytes: &'a mut [MaybeUninit<u8>],
    filled: usize,
}

impl<'a> ReadBuffer<'a> {
    /// Creates an empty buffer over the caller's memory.
    pub fn new(bytes: &'a mut [MaybeUninit<u8>]) -> Self {
        Self { bytes, filled: 0 }
    }

    /// Number of bytes that have been appended.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.filled
    }

    /// Whether no byte has been appended.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Number of bytes that can still be appended.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.bytes.len() - self.filled
    }

    /// Appends bytes by calling `fill` with the unfilled part; `fill` initialises bytes at its start and returns
    /// their number.
    ///
    /// # Errors
    ///
    /// The error of `fill`; then nothing is appended.
    pub fn append_with<E>(
        &mut self,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let room = self.bytes.get_mut(self.filled..).unwrap_or_default();
        let count = fill(room)?.min(self.room());
        self.filled += count;
        Ok(count)
    }

    /// Appends as many of `bytes` as fit; returns their number.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.room());
        self.bytes[self.filled..self.filled + count].write_copy_of_slice(&bytes[..count]);
        self.filled += count;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::ReadBuffer;
    use core::mem::MaybeUninit;

    #[test]
    fn append_truncates_to_the_room() {
        let mut memory = [MaybeUninit::uninit(); 5];
        let mut buffer = ReadBuffer::new(&mut memory);
        assert_eq!(buffer.append(b"abc"), 3);
        assert_eq!(buffer.append(b"def"), 2);
        assert_eq!((buffer.len(), buffer.room(), buffer.append(b"x")), (5, 0, 0));
    }

    #[test]
    fn append_with_is_limited_to_the_room() {
        let mut memory = [MaybeUninit::uninit(); 5];
        let mut buffer = ReadBuffer::new(&mut memory);
        let add = |count: usize| move |room: &mut [MaybeUninit<u8>]| Ok::<_, ()>(room.len().min(1) * count);
        assert_eq!(buffer.append_with(add(2)), Ok(2));
        assert_eq!(buffer.append_with(|_| Err(())), Err(()));
        assert_eq!((buffer.append_with(add(9)), buffer.append_with(add(9))), (Ok(3), Ok(0)));
    }
}
