//! Frames in a byte stream, as QEMU's `-netdev stream` exchanges them: each frame follows its length, a
//! 32-bit number in network byte order.
//!
//! A stream does not preserve the boundaries of writes: a read may return a part of a frame, or several
//! frames. [`FrameReader`] collects bytes until it has a whole frame. [`FrameWriter`] keeps the bytes that
//! the receiver does not accept yet. Its caller adds frames only while few bytes are unwritten
//! ([`FrameWriter::has_capacity`]).

use std::io::{self, Error, ErrorKind};

use crate::devices::net::{MAX_FRAME, MIN_FRAME};

/// Size in bytes of the length field before each frame.
const LENGTH_SIZE: usize = 4;

/// Size in bytes of the receive buffer, which holds at least one frame of any size.
const CAPACITY: usize = 128 * 1024;

const _: () = assert!(LENGTH_SIZE + MAX_FRAME <= CAPACITY);

/// Number of unwritten bytes at which [`FrameWriter`] stops accepting frames.
const HIGH_WATER_MARK: usize = 64 * 1024;

/// Splits a byte stream into frames.
#[derive(Debug)]
pub struct FrameReader {
    buffer: Box<[u8]>,
    /// Range in the buffer of the bytes that were read, but not returned yet.
    start: usize,
    end: usize,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self { buffer: vec![0; CAPACITY].into_boxed_slice(), start: 0, end: 0 }
    }
}

impl FrameReader {
    /// Returns the next frame. Calls `read` while the buffer holds no whole frame.
    ///
    /// # Errors
    ///
    /// Errors of `read`, after which the caller may call again: the bytes read so far remain in the buffer.
    /// [`ErrorKind::UnexpectedEof`] at the end of the stream and [`ErrorKind::InvalidData`] for an invalid
    /// length are permanent.
    pub fn next(&mut self, mut read: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<&mut [u8]> {
        loop {
            if let Some(end) = self.frame_end()? {
                let start = self.start + LENGTH_SIZE;
                self.start = end;
                return self.buffer.get_mut(start..end).ok_or_else(|| ErrorKind::InvalidData.into());
            }
            self.compact();
            let count = read(self.buffer.get_mut(self.end..).unwrap_or_default())?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.end = self.end.saturating_add(count).min(CAPACITY);
        }
    }

    /// Returns the end of the next frame in the buffer; `None` if the frame is incomplete.
    fn frame_end(&self) -> io::Result<Option<usize>> {
        let unread = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(&length) = unread.first_chunk::<LENGTH_SIZE>() else { return Ok(None) };
        let length = u32::from_be_bytes(length);
        let length = usize::try_from(length).ok().filter(|length| (MIN_FRAME..=MAX_FRAME).contains(length));
        let length =
            length.ok_or_else(|| Error::new(ErrorKind::InvalidData, "a frame of an invalid length"))?;
        let end = self.start + LENGTH_SIZE + length;
        Ok((end <= self.end).then_some(end))
    }

    /// Moves the remaining bytes to the front of the buffer, so that the longest frame fits.
    fn compact(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }
}

/// Buffers frames until the receiver accepts them.
#[derive(Debug, Default)]
pub struct FrameWriter {
    buffer: Vec<u8>,
    /// Number of bytes at the front of the buffer that are already written.
    written: usize,
}

impl FrameWriter {
    /// Returns true if another frame may be added.
    #[must_use]
    pub fn has_capacity(&self) -> bool {
        self.buffer.len() - self.written < HIGH_WATER_MARK
    }

    /// Adds a frame. The caller checks [`Self::has_capacity`] before, which bounds the buffer.
    pub fn push(&mut self, frame: &[u8]) {
        // The removal of written bytes moves all bytes after them, so it is worthwhile only for many bytes.
        if self.written >= HIGH_WATER_MARK {
            self.buffer.drain(..self.written);
            self.written = 0;
        }
        // Cannot fail: a frame has at most MAX_FRAME bytes.
        let length = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        self.buffer.extend(length.to_be_bytes());
        self.buffer.extend_from_slice(frame);
    }

    /// Writes all buffered bytes.
    ///
    /// # Errors
    ///
    /// Errors of `write`, such as [`ErrorKind::WouldBlock`]; unwritten bytes remain in the buffer.
    pub fn flush(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while let Some(rest) = self.buffer.get(self.written..).filter(|rest| !rest.is_empty()) {
            let count = write(rest)?;
            if count == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            let count = count.min(rest.len());
            self.written += count;
        }
        self.buffer.clear();
        self.written = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, FrameReader, FrameWriter};
    use crate::devices::net::{MAX_FRAME, MIN_FRAME};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::io::{self, ErrorKind, Read};

    fn encode(frames: &[Vec<u8>]) -> Vec<u8> {
        let prefixed =
            |frame: &Vec<u8>| [&u32::try_from(frame.len()).unwrap().to_be_bytes()[..], frame].concat();
        frames.iter().flat_map(prefixed).collect()
    }

    /// Returns all frames before the first error, and the kind of that error.
    fn decode(mut stream: impl Read) -> (Vec<Vec<u8>>, ErrorKind) {
        let (mut reader, mut frames) = (FrameReader::default(), Vec::new());
        loop {
            match reader.next(|buffer| stream.read(buffer)) {
                Ok(frame) => frames.push(frame.to_vec()),
                Err(error) => return (frames, error.kind()),
            }
        }
    }

    /// Reader of `.0`. Each read returns at most as many bytes as the next number of `.1` says.
    struct Trickle<'a>(&'a [u8], std::iter::Cycle<std::vec::IntoIter<usize>>);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let max = self.1.next().unwrap().min(buffer.len());
            self.0.read(&mut buffer[..max])
        }
    }

    #[test]
    fn invalid_length_is_an_error() {
        for length in [0, 1, MIN_FRAME - 1, MAX_FRAME + 1, CAPACITY, usize::try_from(u32::MAX).unwrap()] {
            let bytes = [&u32::try_from(length).unwrap().to_be_bytes()[..], &[0; 100]].concat();
            assert_eq!(decode(&bytes[..]), (Vec::new(), ErrorKind::InvalidData), "{length}");
        }
        for length in [MIN_FRAME, MAX_FRAME] {
            let frames = vec![vec![7; length]; 3];
            assert_eq!(decode(&encode(&frames)[..]), (frames, ErrorKind::UnexpectedEof));
        }
    }

    #[test]
    fn error_of_read_loses_no_bytes() {
        let bytes = encode(&[vec![1; 60], vec![2; 100]]);
        let mut reader = FrameReader::default();
        for (end, whole) in
            (0..=bytes.len()).map(|end| (end, [0, 64, 168].iter().filter(|&&at| at <= end).count() - 1))
        {
            let mut stream = &bytes[..end];
            let mut found = 0;
            reader = FrameReader { start: 0, end: 0, ..reader };
            let mut read = |buffer: &mut [u8]| match stream.read(buffer)? {
                0 => Err(ErrorKind::WouldBlock.into()),
                count => Ok(count),
            };
            while let Ok(frame) = reader.next(&mut read) {
                found += 1;
                assert_eq!(frame[0], found);
            }
            assert_eq!(usize::from(found), whole, "{end}");
        }
    }

    #[test]
    fn writer_buffers_up_to_the_high_water_mark() {
        let mut writer = FrameWriter::default();
        let mut count = 0;
        while writer.has_capacity() {
            writer.push(&[3; 1500]);
            count += 1;
        }
        assert!((40..50).contains(&count));
        let blocked = writer.flush(|_| Err(ErrorKind::WouldBlock.into()));
        assert_eq!(blocked.unwrap_err().kind(), ErrorKind::WouldBlock);
        assert_eq!(writer.flush(|_| Ok(0)).unwrap_err().kind(), ErrorKind::WriteZero);
        let mut written = Vec::new();
        writer
            .flush(|bytes| {
                let part = bytes.len().min(7000);
                written.extend_from_slice(&bytes[..part]);
                Ok(part)
            })
            .unwrap();
        assert_eq!(written, encode(&vec![vec![3; 1500]; count]));
        assert!(writer.has_capacity());
    }

    #[test]
    fn slow_receiver_does_not_grow_the_buffer() {
        let mut writer = FrameWriter::default();
        let mut writes = 0;
        for _ in 0..10_000 {
            while writer.has_capacity() {
                writer.push(&[5; 60_000]);
            }
            let slow = |bytes: &[u8]| {
                writes += 1;
                (writes % 2 != 0).then_some(bytes.len().min(10_000)).ok_or(ErrorKind::WouldBlock.into())
            };
            writer.flush(slow).unwrap_err();
        }
        assert!(writer.buffer.capacity() < 512 * 1024);
    }

    proptest! {
        #[test]
        fn frames_do_not_depend_on_the_boundaries_of_reads(
            frames in vec(vec(any::<u8>(), MIN_FRAME..3000), 0..8),
            long in proptest::option::of(60_000usize..MAX_FRAME),
            reads in vec(1usize..5000, 1..10),
        ) {
            let mut frames = frames;
            frames.extend(long.map(|length| vec![9; length]));
            let bytes = encode(&frames);
            let trickle = Trickle(&bytes, reads.into_iter().cycle());
            prop_assert_eq!(decode(trickle), (frames, ErrorKind::UnexpectedEof));
        }

        #[test]
        fn arbitrary_bytes_yield_no_more_than_they_contain(bytes in vec(any::<u8>(), 0..400)) {
            let (frames, _) = decode(&bytes[..]);
            prop_assert!(frames.iter().map(|frame| frame.len() + 4).sum::<usize>() <= bytes.len());
        }
    }
}
