//! Loopback queue: segments from this host to itself. Local segments are not written as packets, and have no
//! checksum.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hermit_tcp::{Header, Segment};

use crate::socket::address::Tuple;

/// Maximum number of queued segments, and of their bytes of data.
const MAX_SEGMENTS: usize = 256;
const MAX_BYTES: usize = 2 << 20;

/// A segment in the queue.
#[derive(Debug)]
pub(super) struct LocalSegment {
    /// Source and destination, as the sender sees them.
    sender: Tuple,
    header: Header,
    payload: Vec<u8>,
}

impl LocalSegment {
    /// Source and destination, as the receiver sees them.
    pub(super) const fn receiver(&self) -> Tuple {
        self.sender.reversed()
    }

    /// The segment.
    pub(super) fn segment(&self) -> Segment<'_> {
        Segment { header: self.header, payload: &self.payload, is_marked: false }
    }
}

/// A bounded queue of segments.
#[derive(Debug, Default)]
pub(crate) struct Loopback {
    segments: VecDeque<LocalSegment>,
    bytes: usize,
    /// Number of segments that have been taken, modulo 2^64.
    taken: u64,
    /// A buffer to reuse for the next segment.
    spare: Vec<u8>,
}

impl Loopback {
    /// Reserves memory for a segment with `size` bytes of data; `false` if the queue or the heap has no room.
    pub(super) fn reserve(&mut self, size: usize) -> bool {
        self.segments.len() < MAX_SEGMENTS
            && self.bytes + size <= MAX_BYTES
            && self.spare.try_reserve(size).is_ok()
            && self.segments.try_reserve(1).is_ok()
    }

    /// Queues a segment. Only after [`reserve`](Self::reserve) for the size of its data.
    pub(super) fn push(
        &mut self,
        sender: Tuple,
        header: &Header,
        data: impl IntoIterator<Item = impl AsRef<[u8]>>,
    ) {
        let mut payload = core::mem::take(&mut self.spare);
        data.into_iter().for_each(|piece| payload.extend_from_slice(piece.as_ref()));
        self.bytes += payload.len();
        self.segments.push_back(LocalSegment { sender, header: *header, payload });
    }

    /// Takes the first segment.
    pub(super) fn pop(&mut self) -> Option<LocalSegment> {
        let segment = self.segments.pop_front()?;
        self.bytes -= segment.payload.len();
        self.taken = self.taken.wrapping_add(1);
        Some(segment)
    }

    /// Keeps the buffer of a received segment for reuse.
    pub(super) fn recycle(&mut self, segment: LocalSegment) {
        let mut buffer = segment.payload;
        if buffer.capacity() > self.spare.capacity() {
            buffer.clear();
            self.spare = buffer;
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.segments.is_empty()
    }

    /// Returns a number that changes when a segment is taken.
    pub(crate) const fn taken(&self) -> u64 {
        self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::{Loopback, MAX_BYTES, MAX_SEGMENTS};
    use crate::socket::address::{Endpoint, Tuple};
    use hermit_tcp::{Header, Seq};
    use std::vec;

    fn tuple() -> Tuple {
        let end = |port| Endpoint::new([127, 0, 0, 1].into(), port);
        Tuple { local: end(1), remote: end(2) }
    }

    #[test]
    fn loopback_is_fifo_and_bounded_by_number() {
        let mut loopback = Loopback::default();
        let mut count = 0;
        while loopback.reserve(2) {
            loopback.push(tuple(), &Header { seq: Seq(count), ..Header::default() }, [[1], [2]]);
            count += 1;
        }
        assert_eq!(usize::try_from(count), Ok(MAX_SEGMENTS));
        for number in 0..count {
            let segment = loopback.pop().unwrap();
            assert_eq!((segment.segment().header.seq, segment.segment().payload), (Seq(number), &[1, 2][..]));
            assert_eq!(segment.receiver(), tuple().reversed());
            loopback.recycle(segment);
        }
        assert!(loopback.is_empty() && loopback.pop().is_none());
    }

    #[test]
    fn loopback_is_bounded_by_bytes() {
        let mut loopback = Loopback::default();
        let data = vec![7; MAX_BYTES / 2];
        for _ in 0..2 {
            assert!(loopback.reserve(data.len()));
            loopback.push(tuple(), &Header::default(), [&data]);
        }
        assert!(!loopback.reserve(1) && loopback.reserve(0));
        loopback.pop();
        assert!(loopback.reserve(1));
    }
}
