//! Frames in a stream of bytes, as passt has it: each with its length before it, 32 bits in network byte order.

use std::io::{self, Error, ErrorKind};

use super::{MAX_FRAME, MIN_FRAME};

/// Bytes of a length.
const LENGTH: usize = 4;

/// How much is read at once at most: more than the longest frame.
const CAPACITY: usize = 128 * 1024;

const _: () = assert!(LENGTH + MAX_FRAME <= CAPACITY);

/// So much output is collected before it is written, besides one more frame.
const COLLECTED: usize = 64 * 1024;

/// Finds frames in what arrives.
#[derive(Debug)]
pub struct Incoming {
    buffer: Box<[u8]>,
    /// Which part of the buffer has arrived, and is in no frame that was returned.
    start: usize,
    end: usize,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { buffer: vec![0; CAPACITY].into_boxed_slice(), start: 0, end: 0 }
    }
}

impl Incoming {
    /// The next frame. `read` is called for more when there is none.
    ///
    /// # Errors
    ///
    /// Those of `read`; nothing is lost. [`ErrorKind::UnexpectedEof`] at the end of the stream, [`ErrorKind::InvalidData`] if it
    /// makes no sense: there will be no more frames.
    pub fn next(&mut self, mut read: impl FnMut(&mut [u8]) -> io::Result<usize>) -> io::Result<&[u8]> {
        loop {
            if let Some(end) = self.end_of_frame()? {
                let start = self.start + LENGTH;
                self.start = end;
                return self.buffer.get(start..end).ok_or_else(|| ErrorKind::InvalidData.into());
            }
            self.make_room();
            let count = read(self.buffer.get_mut(self.end..).unwrap_or_default())?;
            if count == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            self.end = self.end.saturating_add(count).min(CAPACITY);
        }
    }

    /// Where the next frame ends, if all of it has arrived.
    fn end_of_frame(&self) -> io::Result<Option<usize>> {
        let arrived = self.buffer.get(self.start..self.end).unwrap_or_default();
        let Some(&length) = arrived.first_chunk::<LENGTH>() else { return Ok(None) };
        let length = u32::from_be_bytes(length);
        let length = usize::try_from(length).ok().filter(|length| (MIN_FRAME..=MAX_FRAME).contains(length));
        let length = length.ok_or_else(|| Error::new(ErrorKind::InvalidData, "a frame of an odd length"))?;
        let end = self.start + LENGTH + length;
        Ok((end <= self.end).then_some(end))
    }

    /// Moves what is left to the front, so that the longest frame fits.
    fn make_room(&mut self) {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
    }
}

/// Collects frames, and writes them as far as the receiver takes them.
#[derive(Debug, Default)]
pub struct Outgoing {
    buffer: Vec<u8>,
    /// How many bytes of it are written.
    written: usize,
}

impl Outgoing {
    /// Whether there is room for another frame.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.buffer.len() - self.written < COLLECTED
    }

    /// Whether everything is written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.buffer.len() == self.written
    }

    /// Adds a frame of this length, of which `append` writes the bytes to the buffer's end.
    pub fn push(&mut self, length: u32, append: impl FnOnce(&mut Vec<u8>)) {
        // A receiver that takes a little now and then shall not have the buffer grow.
        if self.written >= COLLECTED {
            self.buffer.drain(..self.written);
            self.written = 0;
        }
        self.buffer.extend(length.to_be_bytes());
        append(&mut self.buffer);
    }

    /// Writes what there is.
    ///
    /// # Errors
    ///
    /// Those of `write`, such as [`ErrorKind::WouldBlock`]; what is not written stays.
    pub fn flush(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while let Some(rest) = self.buffer.get(self.written..).filter(|rest| !rest.is_empty()) {
            let count = write(rest)?;
            if count == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            self.written = self.written.saturating_add(count).min(self.buffer.len());
        }
        self.buffer.clear();
        self.written = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CAPACITY, Incoming, Outgoing};
    use crate::devices::net::{MAX_FRAME, MIN_FRAME};
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::io::{self, ErrorKind, Read};

    fn encode(frames: &[Vec<u8>]) -> Vec<u8> {
        let prefixed =
            |frame: &Vec<u8>| [&u32::try_from(frame.len()).unwrap().to_be_bytes()[..], frame].concat();
        frames.iter().flat_map(prefixed).collect()
    }

    /// All frames up to the error.
    fn decode(mut stream: impl Read) -> (Vec<Vec<u8>>, ErrorKind) {
        let (mut incoming, mut frames) = (Incoming::default(), Vec::new());
        loop {
            match incoming.next(|buffer| stream.read(buffer)) {
                Ok(frame) => frames.push(frame.to_vec()),
                Err(error) => return (frames, error.kind()),
            }
        }
    }

    /// Gives this many bytes at a time, and nothing in between.
    struct Trickle<'a>(&'a [u8], std::iter::Cycle<std::vec::IntoIter<usize>>);

    impl Read for Trickle<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let most = self.1.next().unwrap().min(buffer.len());
            self.0.read(&mut buffer[..most])
        }
    }

    #[test]
    fn odd_lengths_end_the_stream() {
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
    fn an_interruption_loses_nothing() {
        let bytes = encode(&[vec![1; 60], vec![2; 100]]);
        let mut incoming = Incoming::default();
        for (end, whole) in
            (0..=bytes.len()).map(|end| (end, [0, 64, 168].iter().filter(|&&at| at <= end).count() - 1))
        {
            let mut stream = &bytes[..end];
            let mut found = 0;
            incoming = Incoming { start: 0, end: 0, ..incoming };
            let mut read = |buffer: &mut [u8]| match stream.read(buffer)? {
                0 => Err(ErrorKind::WouldBlock.into()),
                count => Ok(count),
            };
            while let Ok(frame) = incoming.next(&mut read) {
                found += 1;
                assert_eq!(frame[0], found);
            }
            assert_eq!(usize::from(found), whole, "{end}");
        }
    }

    #[test]
    fn output_waits_for_the_receiver_but_not_without_end() {
        let mut outgoing = Outgoing::default();
        let mut count = 0;
        while outgoing.has_room() {
            outgoing.push(1500, |bytes| bytes.extend([3; 1500]));
            count += 1;
        }
        assert!((40..50).contains(&count));
        let blocked = outgoing.flush(|_| Err(ErrorKind::WouldBlock.into()));
        assert_eq!(blocked.unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(!outgoing.is_empty());
        assert_eq!(outgoing.flush(|_| Ok(0)).unwrap_err().kind(), ErrorKind::WriteZero);
        let mut written = Vec::new();
        outgoing
            .flush(|bytes| {
                let part = bytes.len().min(7000);
                written.extend_from_slice(&bytes[..part]);
                Ok(part)
            })
            .unwrap();
        assert_eq!(written, encode(&vec![vec![3; 1500]; count]));
        assert!(outgoing.is_empty() && outgoing.has_room());
    }

    #[test]
    fn a_slow_receiver_does_not_have_the_buffer_grow() {
        let mut outgoing = Outgoing::default();
        let mut turn = 0;
        for _ in 0..10_000 {
            while outgoing.has_room() {
                outgoing.push(60_000, |bytes| bytes.resize(bytes.len() + 60_000, 5));
            }
            let slow = |bytes: &[u8]| {
                turn += 1;
                (turn % 2 != 0).then_some(bytes.len().min(10_000)).ok_or(ErrorKind::WouldBlock.into())
            };
            outgoing.flush(slow).unwrap_err();
        }
        assert!(outgoing.buffer.capacity() < 512 * 1024);
    }

    proptest! {
        #[test]
        fn frames_arrive_however_the_stream_is_cut(
            frames in vec(vec(any::<u8>(), MIN_FRAME..3000), 0..8),
            long in proptest::option::of(60_000usize..MAX_FRAME),
            cuts in vec(1usize..5000, 1..10),
        ) {
            let mut frames = frames;
            frames.extend(long.map(|length| vec![9; length]));
            let bytes = encode(&frames);
            let trickle = Trickle(&bytes, cuts.into_iter().cycle());
            prop_assert_eq!(decode(trickle), (frames, ErrorKind::UnexpectedEof));
        }

        #[test]
        fn no_stream_is_too_strange(bytes in vec(any::<u8>(), 0..400)) {
            let (frames, _) = decode(&bytes[..]);
            prop_assert!(frames.iter().map(|frame| frame.len() + 4).sum::<usize>() <= bytes.len());
        }
    }
}
