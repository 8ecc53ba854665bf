//! The receive buffer: data that the program has not read, in order and after gaps.
//!
//! Bytes are stored at their offset from the first unread byte, so that data after a gap needs no copy when
//! the gap is filled. `next` is RCV.NXT, the end of the data in order. `ranges` lists the data after gaps,
//! and a segment that fills a gap joins its neighbors. The most recently changed range is the first one,
//! since SACK blocks are reported in this order (RFC 2018 §4). Data for which there is no room or memory is
//! dropped: the peer retransmits it.

use alloc::vec::Vec;

use super::chunks::Chunks;
use super::pool::{Pool, Purpose};
use super::{to_u32, to_usize};
use crate::segment::{SackBlock, SackBlocks};
use crate::seq::Seq;

/// Maximum number of ranges after gaps. Data that would begin another one is dropped.
const MAX_RANGES: usize = 64;

/// Result of inserting the data of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Inserted {
    /// Bytes by which RCV.NXT advanced.
    pub(crate) in_order: u32,
    /// True if data was stored after a gap.
    pub(crate) is_out_of_order: bool,
    /// True if data that is next in order was dropped for lack of memory.
    pub(crate) lacks_memory: bool,
    /// Data that had been received before: a D-SACK block (RFC 2883 §4).
    pub(crate) duplicate: Option<SackBlock>,
}

/// The receive buffer.
#[derive(Debug)]
pub(crate) struct ReceiveBuffer {
    chunks: Chunks,
    /// RCV.NXT, without the number of a FIN.
    next: Seq,
    /// Bytes before `next` that have not been read.
    ready: u32,
    limit: u32,
    /// Ranges after gaps, disjoint and not adjacent, the most recently changed one first.
    ranges: Vec<SackBlock>,
}

impl ReceiveBuffer {
    /// Creates an empty buffer for at most `limit` bytes. The first byte has the number `next`.
    pub(crate) fn new(next: Seq, limit: u32) -> Self {
        Self { chunks: Chunks::default(), next, ready: 0, limit, ranges: Vec::new() }
    }

    /// Number after all data in order.
    pub(crate) const fn next(&self) -> Seq {
        self.next
    }

    /// Number of bytes that can be read.
    pub(crate) const fn ready(&self) -> u32 {
        self.ready
    }

    /// Maximum number of bytes in the buffer.
    pub(crate) const fn limit(&self) -> u32 {
        self.limit
    }

    /// Changes the maximum, which must not be below the advertised window.
    pub(crate) const fn set_limit(&mut self, limit: u32) {
        self.limit = limit;
    }

    /// Number of bytes after `next` for which there is room.
    pub(crate) const fn room(&self) -> u32 {
        self.limit.saturating_sub(self.ready)
    }

    /// True if there is a gap before received data.
    pub(crate) const fn has_gap(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Stores data that begins at `seq`, as far as there is room and memory for it. Returns the outcome.
    pub(crate) fn insert(&mut self, seq: Seq, bytes: &[u8], pool: &mut Pool) -> Inserted {
        let end = seq + to_u32(bytes.len());
        // The bytes before RCV.NXT are duplicates, which a D-SACK block reports.
        let before = self.next.since(seq).min(end.since(seq));
        let duplicate = (before > 0).then(|| SackBlock { start: seq, end: seq + before });
        let start = seq + before;
        let end = end.min(self.next + self.room());
        let Some(bytes) = bytes.get(to_usize(before)..to_usize(before + end.since(start))) else {
            return Inserted { duplicate, ..Inserted::default() };
        };
        if bytes.is_empty() {
            return Inserted { duplicate, ..Inserted::default() };
        }
        let offset = to_usize(self.ready + start.since(self.next));
        // Fast path: the data is in order, and there is no gap.
        if start == self.next && self.ranges.is_empty() {
            let written = to_u32(self.chunks.write(offset, bytes, pool, Purpose::Received));
            self.next = self.next + written;
            self.ready += written;
            let lacks_memory = to_usize(written) < bytes.len();
            return Inserted { in_order: written, is_out_of_order: false, lacks_memory, duplicate };
        }
        let duplicate = duplicate.or_else(|| self.overlap(SackBlock { start, end }));
        if !self.has_place_for(SackBlock { start, end }) {
            return Inserted { duplicate, ..Inserted::default() };
        }
        let purpose = if start == self.next { Purpose::Received } else { Purpose::OutOfOrder };
        let written = to_u32(self.chunks.write(offset, bytes, pool, purpose));
        let lacks_memory = start == self.next && to_usize(written) < bytes.len();
        let in_order = self.merge(SackBlock { start, end: start + written });
        Inserted { in_order, is_out_of_order: in_order == 0 && !lacks_memory, lacks_memory, duplicate }
    }

    /// Returns the part of `block` that is in `ranges` already.
    fn overlap(&self, block: SackBlock) -> Option<SackBlock> {
        let parts = self
            .ranges
            .iter()
            .map(|range| SackBlock { start: range.start.max(block.start), end: range.end.min(block.end) });
        parts.into_iter().find(|part| part.start.is_before(part.end))
    }

    /// True if `block` adjoins the data in order or a range, or if there is memory for another range.
    fn has_place_for(&mut self, block: SackBlock) -> bool {
        let is_new = block.start != self.next && !self.ranges.iter().any(|range| touches(range, &block));
        !is_new || self.ranges.len() < MAX_RANGES && self.ranges.try_reserve(1).is_ok()
    }

    /// Adds a block to the front of the ranges; returns the number of bytes by which `next` advanced.
    fn merge(&mut self, mut block: SackBlock) -> u32 {
        if block.start == block.end {
            return 0;
        }
        self.ranges.retain(|range| {
            let is_part = touches(range, &block);
            if is_part {
                block = SackBlock { start: range.start.min(block.start), end: range.end.max(block.end) };
            }
            !is_part
        });
        if block.start.is_up_to(self.next) {
            let advance = block.end.since(self.next);
            self.next = self.next + advance;
            self.ready += advance;
            return advance;
        }
        // There was room, or a range has just been taken out.
        self.ranges.insert(0, block);
        0
    }

    /// SACK blocks for an acknowledgement: `duplicate` first, then the ranges (RFC 2018 §4, RFC 2883 §4).
    pub(crate) fn sack_blocks(&self, duplicate: Option<SackBlock>, max: usize) -> SackBlocks {
        let mut blocks = SackBlocks::default();
        for &block in duplicate.iter().chain(&self.ranges).take(max) {
            blocks.push(block);
        }
        blocks
    }

    /// Passes bytes in order to `sink`, piece by piece, until it takes less than a whole piece. `sink`
    /// returns the number of bytes it took. Returns their sum. With `peek` the bytes stay in the buffer.
    pub(crate) fn read(&mut self, peek: bool, sink: &mut dyn FnMut(&[u8]) -> usize, pool: &mut Pool) -> u32 {
        let mut taken = 0;
        for piece in self.chunks.pieces(0, to_usize(self.ready)) {
            let size = sink(piece).min(piece.len());
            taken += to_u32(size);
            if size < piece.len() {
                break;
            }
        }
        if !peek {
            self.consume(taken, pool);
        }
        taken
    }

    /// Frees bytes that were read.
    pub(crate) fn consume(&mut self, size: u32, pool: &mut Pool) {
        let size = size.min(self.ready);
        self.ready -= size;
        if self.ready == 0 && self.ranges.is_empty() {
            self.chunks.clear(pool);
        } else {
            self.chunks.advance(to_usize(size), pool);
        }
    }

    /// Frees data after gaps.
    pub(crate) fn drop_ranges(&mut self, pool: &mut Pool) {
        self.ranges = Vec::new();
        self.chunks.truncate(to_usize(self.ready), pool);
    }

    /// Frees everything; `next` stays.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.ranges = Vec::new();
        self.consume(self.ready, pool);
    }
}

/// True if two ranges overlap or adjoin.
const fn touches(one: &SackBlock, other: &SackBlock) -> bool {
    one.start.is_up_to(other.end) && other.start.is_up_to(one.end)
}

#[cfg(test)]
mod tests {
    use super::{MAX_RANGES, ReceiveBuffer};
    use crate::buffers::pool::{CHUNK, Pool};
    use crate::segment::SackBlock;
    use crate::seq::Seq;
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};
    use std::vec::Vec;

    fn read(buffer: &mut ReceiveBuffer, pool: &mut Pool) -> Vec<u8> {
        let mut bytes = Vec::new();
        buffer.read(
            false,
            &mut |piece| {
                bytes.extend_from_slice(piece);
                piece.len()
            },
            pool,
        );
        bytes
    }

    #[test]
    fn ranges_merge_and_latest_is_reported_first() {
        let mut pool = Pool::new(1 << 20);
        let mut buffer = ReceiveBuffer::new(Seq(u32::MAX - 1), 1000);
        let block = |start, end| SackBlock { start: Seq(start), end: Seq(end) };
        assert!(buffer.insert(Seq(3), b"defg", &mut pool).is_out_of_order);
        assert!(buffer.insert(Seq(10), b"k", &mut pool).is_out_of_order);
        assert_eq!(buffer.sack_blocks(None, 4).as_slice(), [block(10, 11), block(3, 7)]);
        let again = buffer.insert(Seq(5), b"fgh", &mut pool);
        assert_eq!(again.duplicate, Some(block(5, 7)));
        assert_eq!(buffer.sack_blocks(again.duplicate, 2).as_slice(), [block(5, 7), block(3, 8)]);
        assert_eq!(buffer.insert(Seq(u32::MAX - 1), b"yzabc", &mut pool).in_order, 10);
        assert_eq!(read(&mut buffer, &mut pool), b"yzabcdefgh");
        assert_eq!(buffer.insert(Seq(7), b"h", &mut pool).duplicate, Some(block(7, 8)));
        assert_eq!(buffer.insert(Seq(8), b"ij", &mut pool).in_order, 3);
        assert_eq!(
            (read(&mut buffer, &mut pool), buffer.next(), buffer.has_gap()),
            (b"ijk".to_vec(), Seq(11), false)
        );
        assert_eq!(pool.used(), 0);
    }

    #[test]
    fn data_beyond_room_and_ranges_is_dropped() {
        let mut pool = Pool::new(1 << 20);
        let mut buffer = ReceiveBuffer::new(Seq(0), 1000);
        assert_eq!(buffer.insert(Seq(990), &[1; 100], &mut pool).duplicate, None);
        assert_eq!(buffer.sack_blocks(None, 4).as_slice(), [SackBlock { start: Seq(990), end: Seq(1000) }]);
        assert!(!buffer.insert(Seq(1000), &[1; 100], &mut pool).is_out_of_order);
        for start in 0..100 {
            let is_stored = buffer.insert(Seq(2 * start + 1), b"x", &mut pool).is_out_of_order;
            assert_eq!(is_stored, start < 63, "{start}");
        }
        assert_eq!(buffer.ranges.len(), MAX_RANGES);
        buffer.clear(&mut pool);
        assert_eq!((pool.used(), buffer.room()), (0, 1000));
    }

    #[test]
    fn without_memory_a_part_is_stored() {
        // The last chunk of eight is for sending.
        let mut pool = Pool::new(8 * CHUNK);
        let mut buffer = ReceiveBuffer::new(Seq(0), 1 << 20);
        let bytes = [7; 9 * CHUNK];
        assert_eq!(buffer.insert(Seq(0), &bytes, &mut pool).in_order as usize, 7 * CHUNK);
        assert_eq!(buffer.insert(buffer.next(), &bytes, &mut pool).in_order, 0);
        assert_eq!(read(&mut buffer, &mut pool).len(), 7 * CHUNK);
        assert_eq!(buffer.insert(buffer.next(), &bytes, &mut pool).in_order as usize, 7 * CHUNK);
    }

    /// Otherwise the data after the gaps of several connections could use all memory, and no gap could be
    /// filled.
    #[test]
    fn data_behind_a_gap_leaves_memory_for_what_fills_the_gap() {
        let mut pool = Pool::new(8 * CHUNK);
        let [mut behind, mut other] = [(); 2].map(|()| ReceiveBuffer::new(Seq(0), 1 << 20));
        let bytes = [7; 9 * CHUNK];
        behind.insert(Seq(1), &bytes, &mut pool);
        assert_eq!(pool.used(), 4 * CHUNK);
        other.insert(Seq(1), &bytes, &mut pool);
        assert!(behind.has_gap() && !other.has_gap());
        assert_eq!(behind.insert(Seq(0), &bytes, &mut pool).in_order as usize, 7 * CHUNK);
    }

    proptest! {
        #[test]
        fn every_byte_arrives_once_and_in_order(
            segments in vec((0..20_000_u32, 1..5000_usize), 1..60),
            first in proptest::num::u32::ANY,
            reads in vec(0..9000_usize, 1..60),
        ) {
            let mut pool = Pool::new(1 << 20);
            let mut buffer = ReceiveBuffer::new(Seq(first), 12_000);
            let byte = |offset: u32| u8::try_from(offset % 251).unwrap();
            let (mut received, mut reads) = (0_u32, reads.into_iter().cycle());
            let all = (0..20_u32).map(|index| (index * 1000, 1000));
            for (offset, size) in segments.into_iter().chain(all) {
                let bytes: Vec<u8> = (0..u32::try_from(size).unwrap()).map(|at| byte(offset + at)).collect();
                let next = buffer.next();
                let inserted = buffer.insert(Seq(first) + offset, &bytes, &mut pool);
                prop_assert_eq!(buffer.next(), next + inserted.in_order);
                let mut left = reads.next().unwrap();
                buffer.read(false, &mut |piece| {
                    let size = piece.len().min(left);
                    left -= size;
                    for &value in &piece[..size] {
                        assert_eq!(value, byte(received));
                        received += 1;
                    }
                    size
                }, &mut pool);
                prop_assert!(buffer.ready() <= 12_000);
            }
            received += buffer.ready();
            prop_assert_eq!(Seq(first) + received, buffer.next());
            buffer.clear(&mut pool);
            prop_assert_eq!(pool.used(), 0);
        }
    }
}
