//! A network backend for fuzzers: received frames are derived from the guest's bytes, sent frames must be
//! valid.

use std::io;
use std::os::fd::RawFd;

use vm_memory::VolatileSlice;

use crate::devices::net::backend::{Backend, Disconnected, ReceivedFrame, TxStatus};
use crate::devices::net::header::{Offloads, VNET_HEADER_SIZE, VnetHeader};
use crate::devices::net::{MAX_FRAME, MIN_FRAME};

/// Offloads of a driver that has accepted all features.
const ALL: Offloads = Offloads { checksum: true, tcp4: true, tcp6: true };

/// Backend that blocks now and then, and disconnects after a number of calls.
#[derive(Debug)]
pub(super) struct FuzzBackend {
    bytes: Vec<u8>,
    /// Number of calls of [`Self::next`].
    calls: usize,
}

impl FuzzBackend {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Self { bytes: bytes.to_vec(), calls: 0 }
    }

    /// Bytes from another position at each call.
    fn next<const N: usize>(&mut self) -> [u8; N] {
        self.calls += 1;
        let start = self.calls * 7 % self.bytes.len().max(1);
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

    fn receive(&mut self, buffers: &[VolatileSlice<'_>]) -> Result<Option<ReceivedFrame>, Disconnected> {
        let [low, high, kind] = self.next();
        let header = VnetHeader::from(self.next::<VNET_HEADER_SIZE>());
        if kind == 0xff || self.calls > 200 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let max = buffers.iter().map(VolatileSlice::len).sum();
        let length = usize::from(u16::from_le_bytes([low, high & 0x1f])).min(max);
        Ok((kind % 8 != 0).then_some(ReceivedFrame { header, length }))
    }

    fn send(&mut self, header: VnetHeader, frame: &[VolatileSlice<'_>]) -> Result<TxStatus, Disconnected> {
        let length = frame.iter().map(VolatileSlice::len).sum();
        assert!((MIN_FRAME..=MAX_FRAME).contains(&length), "a frame of {length} bytes");
        assert_eq!(header.validate(length, ALL), Ok(header), "an invalid header");
        let [choice] = self.next();
        Ok(if choice % 8 == 7 { TxStatus::WouldBlock } else { TxStatus::Accepted })
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
