//! The caller's buffer of a read.

use core::mem::MaybeUninit;

/// A buffer to be filled from the front. What it held before cannot be seen: callers pass uninitialised memory.
#[derive(Debug)]
pub struct ReadBuffer<'a> {
    bytes: &'a mut [MaybeUninit<u8>],
    filled: usize,
}

impl<'a> ReadBuffer<'a> {
    /// An empty buffer over the caller's memory.
    pub fn new(bytes: &'a mut [MaybeUninit<u8>]) -> Self {
        Self { bytes, filled: 0 }
    }

    /// How many bytes have been added.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.filled
    }

    /// Whether no byte has been added.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// How many more bytes fit.
    #[must_use]
    pub const fn room(&self) -> usize {
        self.bytes.len() - self.filled
    }

    /// Has `fill` add bytes to the room that is left, and say how many.
    ///
    /// # Errors
    ///
    /// That of `fill`, which has added nothing then.
    pub fn append_with<E>(
        &mut self,
        fill: impl FnOnce(&mut [MaybeUninit<u8>]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let room = self.bytes.get_mut(self.filled..).unwrap_or_default();
        let count = fill(room)?.min(self.room());
        self.filled += count;
        Ok(count)
    }

    /// Adds as much of `bytes` as fits and returns how many those are.
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
    fn what_does_not_fit_is_not_added() {
        let mut memory = [MaybeUninit::uninit(); 5];
        let mut buffer = ReadBuffer::new(&mut memory);
        assert_eq!(buffer.append(b"abc"), 3);
        assert_eq!(buffer.append(b"def"), 2);
        assert_eq!((buffer.len(), buffer.room(), buffer.append(b"x")), (5, 0, 0));
    }

    #[test]
    fn who_fills_the_room_cannot_add_more() {
        let mut memory = [MaybeUninit::uninit(); 5];
        let mut buffer = ReadBuffer::new(&mut memory);
        let add = |count: usize| move |room: &mut [MaybeUninit<u8>]| Ok::<_, ()>(room.len().min(1) * count);
        assert_eq!(buffer.append_with(add(2)), Ok(2));
        assert_eq!(buffer.append_with(|_| Err(())), Err(()));
        assert_eq!((buffer.append_with(add(9)), buffer.append_with(add(9))), (Ok(3), Ok(0)));
    }
}
