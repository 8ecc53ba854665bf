//! The caller's buffer of a read, which may be uninitialised memory.

use core::mem::MaybeUninit;

/// A write-only buffer that is filled from the front, as `std::io::BorrowedBuf`. So its memory need not be
/// initialised.
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

    /// Returns true if no byte has been appended.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Returns true if the memory of this buffer begins at `start`. A function that gets a `&mut ReadBuffer`
    /// can replace it by another buffer. Then [`Self::len`] says nothing about the memory of the original
    /// buffer.
    #[must_use]
    pub fn starts_at(&self, start: *const MaybeUninit<u8>) -> bool {
        core::ptr::eq(self.bytes.as_ptr(), start)
    }

    /// Number of bytes that can still be appended.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.bytes.len() - self.filled
    }

    /// Calls `fill` with the unfilled part of the buffer. `fill` initialises bytes at the start of this part
    /// and returns them. They are then appended. Returns their number.
    ///
    /// # Errors
    ///
    /// The error of `fill`. Then nothing is appended.
    ///
    /// # Panics
    ///
    /// If `fill` returns bytes that are not at the start of the unfilled part: then bytes of the buffer could
    /// be uninitialised.
    pub fn append_with<E>(
        &mut self,
        fill: impl for<'room> FnOnce(&'room mut [MaybeUninit<u8>]) -> Result<&'room mut [u8], E>,
    ) -> Result<usize, E> {
        let room = self.bytes.get_mut(self.filled..).unwrap_or_default();
        let (start, size) = (room.as_ptr().cast::<u8>(), room.len());
        let filled = fill(room)?;
        assert!(filled.as_ptr() == start && filled.len() <= size, "these are not the bytes of the buffer");
        let count = filled.len();
        self.filled += count;
        Ok(count)
    }

    /// Appends as many of `bytes` as fit. Returns their number.
    pub fn append(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.room());
        self.bytes[self.filled..self.filled + count].write_copy_of_slice(&bytes[..count]);
        self.filled += count;
        count
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

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
    fn append_with_counts_initialised_bytes() {
        let mut memory = [MaybeUninit::uninit(); 5];
        let mut buffer = ReadBuffer::new(&mut memory);
        let mut add = |bytes: &[u8]| {
            buffer.append_with(|room| Ok::<_, ()>(room[..bytes.len()].write_copy_of_slice(bytes)))
        };
        assert_eq!((add(b"ab"), add(b"cde"), add(b"")), (Ok(2), Ok(3), Ok(0)));
        assert_eq!(buffer.append_with(|_| Err(())), Err(()));
        assert_eq!(buffer.len(), 5);
    }

    #[test]
    fn buffer_in_the_place_of_another_is_recognised() {
        let [mut memory, mut other] = [[MaybeUninit::uninit(); 5]; 2];
        let start = memory.as_ptr();
        let mut buffer = ReadBuffer::new(&mut memory);
        buffer.append(b"abc");
        assert!(buffer.starts_at(start));
        // An object could do the same in `poll_read`.
        buffer = ReadBuffer::new(&mut other);
        buffer.append(b"abcd");
        assert!(!buffer.starts_at(start));
    }

    #[test]
    #[should_panic(expected = "not the bytes of the buffer")]
    fn append_with_rejects_bytes_of_another_buffer() {
        let mut memory = [MaybeUninit::uninit(); 5];
        let mut buffer = ReadBuffer::new(&mut memory);
        let other: &'static mut [u8] = std::boxed::Box::leak(std::boxed::Box::new([0; 5]));
        let _: Result<usize, ()> = buffer.append_with(|_| Ok(other));
    }

    #[test]
    #[should_panic(expected = "not the bytes of the buffer")]
    fn append_with_rejects_bytes_behind_a_gap() {
        let mut memory = [MaybeUninit::uninit(); 5];
        let mut buffer = ReadBuffer::new(&mut memory);
        let _: Result<usize, ()> = buffer.append_with(|room| Ok(room[1..3].write_copy_of_slice(b"ab")));
    }
}
