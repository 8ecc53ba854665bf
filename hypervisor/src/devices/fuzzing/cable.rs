//! A network for fuzzers: what arrives is made of the guest's bytes, and what leaves must make sense.

use std::io;
use std::os::fd::RawFd;

use vm_memory::VolatileSlice;

use crate::devices::net::backend::{Backend, Lost, Received, Sent};
use crate::devices::net::header::{HEADER, Header, Offloads};
use crate::devices::net::{MAX_FRAME, MIN_FRAME};

/// What a driver gets that takes everything.
const ALL: Offloads = Offloads { checksum: true, tcp4: true, tcp6: true };

/// The other end of the cable. It has no room now and then, and is cut after a number of frames.
#[derive(Debug)]
pub(super) struct Cable {
    bytes: Vec<u8>,
    turn: usize,
}

impl Cable {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), turn: 0 }
    }

    /// Bytes that are different each time.
    fn next<const N: usize>(&mut self) -> [u8; N] {
        self.turn += 1;
        let start = self.turn * 7 % self.bytes.len().max(1);
        let bytes = self.bytes.get(start..).and_then(|rest| rest.first_chunk());
        bytes.copied().unwrap_or([0; N])
    }
}

impl Backend for Cable {
    fn has_offloads(&self) -> bool {
        true
    }

    fn set_offloads(&mut self, _offloads: Offloads) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, room: &[VolatileSlice<'_>]) -> Result<Option<Received>, Lost> {
        let [low, high, kind] = self.next();
        let header = Header::from(self.next::<HEADER>());
        if kind == 0xff || self.turn > 200 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let most = room.iter().map(VolatileSlice::len).sum();
        let length = usize::from(u16::from_le_bytes([low, high & 0x1f])).min(most);
        Ok((kind % 8 != 0).then_some(Received { header, length }))
    }

    fn send(&mut self, header: Header, frame: &[VolatileSlice<'_>]) -> Result<Sent, Lost> {
        let length = frame.iter().map(VolatileSlice::len).sum();
        assert!((MIN_FRAME..=MAX_FRAME).contains(&length), "a frame of {length} bytes");
        assert_eq!(header.checked(length, ALL), Ok(header), "a header that makes no sense");
        let [turn] = self.next();
        Ok(if turn % 8 == 7 { Sent::Later } else { Sent::Taken })
    }

    fn flush(&mut self) -> Result<Sent, Lost> {
        Ok(Sent::Taken)
    }

    fn input(&self) -> RawFd {
        -1
    }

    fn output(&self) -> RawFd {
        -1
    }
}
