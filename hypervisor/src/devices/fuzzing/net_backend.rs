//! A network for fuzzers: what arrives is made of the guest's bytes, and what leaves must make sense.

use std::io;
use std::os::fd::RawFd;

use vm_memory::VolatileSlice;

use crate::devices::net::backend::{Backend, Disconnected, ReceivedFrame, TxStatus};
use crate::devices::net::header::{Offloads, VNET_HEADER_SIZE, VnetHeader};
use crate::devices::net::{MAX_FRAME, MIN_FRAME};

/// What a driver gets that takes everything.
const ALL: Offloads = Offloads { checksum: true, tcp4: true, tcp6: true };

/// The other end of the cable. It has no room now and then, and is cut after a number of frames.
#[derive(Debug)]
pub(super) struct FuzzBackend {
    bytes: Vec<u8>,
    turn: usize,
}

impl FuzzBackend {
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

impl Backend for FuzzBackend {
    fn has_offloads(&self) -> bool {
        true
    }

    fn set_offloads(&mut self, _offloads: Offloads) -> io::Result<()> {
        Ok(())
    }

    fn receive(&mut self, room: &[VolatileSlice<'_>]) -> Result<Option<ReceivedFrame>, Disconnected> {
        let [low, high, kind] = self.next();
        let header = VnetHeader::from(self.next::<VNET_HEADER_SIZE>());
        if kind == 0xff || self.turn > 200 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let most = room.iter().map(VolatileSlice::len).sum();
        let length = usize::from(u16::from_le_bytes([low, high & 0x1f])).min(most);
        Ok((kind % 8 != 0).then_some(ReceivedFrame { header, length }))
    }

    fn send(&mut self, header: VnetHeader, frame: &[VolatileSlice<'_>]) -> Result<TxStatus, Disconnected> {
        let length = frame.iter().map(VolatileSlice::len).sum();
        assert!((MIN_FRAME..=MAX_FRAME).contains(&length), "a frame of {length} bytes");
        assert_eq!(header.validate(length, ALL), Ok(header), "a header that makes no sense");
        let [turn] = self.next();
        Ok(if turn % 8 == 7 { TxStatus::WouldBlock } else { TxStatus::Accepted })
    }

    fn flush(&mut self) -> Result<TxStatus, Disconnected> {
        Ok(TxStatus::Accepted)
    }

    fn input(&self) -> RawFd {
        -1
    }

    fn output(&self) -> RawFd {
        -1
    }
}
