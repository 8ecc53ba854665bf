//! The scoreboard: data that was sent and is not acknowledged, and its state (RFC 6675 §3, RFC 8985 §5.2).
//!
//! The numbers from SND.UNA to SND.NXT are divided into ranges. Data that was sent together is one range. A
//! range is split when a SACK block covers a part of it, or when a part of it is retransmitted. Adjacent
//! ranges are merged if both are selectively acknowledged.
//!
//! The peer chooses the SACK blocks, so its influence on memory and time is bounded. A block counts only for
//! the whole segments in it, and so there are never more ranges than segments. There are at most
//! [`MAX_RANGES`] ranges, and the memory of all but [`FREE_RANGES`] is charged to the [`Pool`]. A block that
//! would need more ranges is ignored, as if the acknowledgement had been lost.

use alloc::collections::VecDeque;

use crate::buffers::{Pool, Purpose, to_u32, to_usize};
use crate::segment::SackBlock;
use crate::seq::Seq;

/// Maximum number of ranges of a connection: enough for 4 MiB in segments of 1,024 bytes with a different
/// state for each segment. Each acknowledgement may look at all of them.
pub(crate) const MAX_RANGES: usize = 4096;

/// Number of ranges that are not charged to the pool, so that each connection can send while all memory of
/// the pool is in use.
pub(crate) const FREE_RANGES: usize = 8;

/// Maximum number of ranges that an acknowledgement adds: each SACK block splits two ranges.
const SPLITS: usize = 2 * crate::segment::MAX_SACK_BLOCKS;

/// State of a range of sequence numbers that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeState {
    /// In flight, as far as is known.
    InFlight,
    /// Selectively acknowledged.
    Sacked,
    /// To be retransmitted.
    Lost,
}

/// State of the delivery rate when a range was sent. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Bytes delivered (P.delivered) and lost (P.lost) before.
    pub(super) delivered: Seq,
    pub(super) lost: u32,
    /// Bytes in flight, including the range (P.tx_in_flight).
    pub(super) in_flight: u32,
    /// Time since the last delivery (P.delivered_time), and since the newest delivered range was sent
    /// (P.first_send_time).
    pub(super) since_delivery: u32,
    pub(super) since_first_sent: u32,
    pub(super) is_app_limited: bool,
}

/// A range of sequence numbers that was sent at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentRange {
    pub(crate) start: Seq,
    pub(crate) end: Seq,
    /// Time of the last transmission.
    pub(crate) sent_at: u64,
    pub(crate) state: RangeState,
    pub(crate) is_retransmitted: bool,
    /// True if its last segment is shorter than the others.
    pub(crate) has_tail: bool,
    /// Size of its segments in bytes.
    pub(crate) segment: u32,
    /// For samples of the delivery rate; the default if there are no samples.
    pub(crate) snapshot: Snapshot,
}

impl SentRange {
    pub(crate) const fn size(&self) -> u32 {
        self.end.since(self.start)
    }
}

/// All ranges from SND.UNA to SND.NXT, in order and without gaps. Ranges that were sent at the same time are
/// merged, as are selectively acknowledged neighbors.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    ranges: VecDeque<SentRange>,
    /// SND.NXT
    end: Seq,
    sacked: u32,
    lost: u32,
    size: u32,
    /// Lower bound of the start of the first lost range, if there is a lost range.
    lost_from: Seq,
    /// Number of ranges whose memory is charged to the pool.
    charged: u32,
}

impl Scoreboard {
    /// Creates an empty scoreboard. The next range begins at `end`.
    pub(crate) const fn new(end: Seq) -> Self {
        Self { ranges: VecDeque::new(), end, sacked: 0, lost: 0, size: 0, lost_from: end, charged: 0 }
    }

    /// SND.UNA
    pub(crate) fn start(&self) -> Seq {
        self.end - self.size
    }

    /// SND.NXT
    pub(crate) const fn end(&self) -> Seq {
        self.end
    }

    /// Moves the end of an empty scoreboard by `size`.
    pub(crate) fn skip(&mut self, size: u32) {
        self.end = self.end + size;
    }

    /// Bytes in flight ("pipe" in RFC 6675).
    pub(crate) const fn in_flight(&self) -> u32 {
        self.size - self.sacked - self.lost
    }

    /// Bytes that must be retransmitted.
    pub(crate) const fn lost(&self) -> u32 {
        self.lost
    }

    /// Bytes that were selectively acknowledged.
    pub(crate) const fn sacked(&self) -> u32 {
        self.sacked
    }

    /// Bytes that were sent and are not acknowledged.
    pub(crate) const fn size(&self) -> u32 {
        self.size
    }

    #[cfg(test)]
    pub(crate) fn ranges(&self) -> impl Iterator<Item = &SentRange> {
        self.ranges.iter()
    }

    /// Number of ranges that fit without more memory.
    fn spare(&self) -> usize {
        self.ranges.capacity() - self.ranges.len()
    }

    /// Makes room for the ranges of the next transmission, and for one more that a retransmission splits off;
    /// `false` without memory.
    pub(crate) fn reserve(&mut self, pool: &mut Pool) -> bool {
        self.spare() >= 2 || self.grow(2, pool)
    }

    /// Makes room for the splits by the blocks of an acknowledgement, if there is memory.
    pub(crate) fn reserve_splits(&mut self, pool: &mut Pool) {
        if self.spare() < SPLITS {
            self.grow(SPLITS, pool);
        }
    }

    /// Allocates memory for at least `count` more ranges; returns true if it did.
    #[cold]
    fn grow(&mut self, count: usize, pool: &mut Pool) -> bool {
        let wanted = (self.ranges.len() + count).next_power_of_two().clamp(FREE_RANGES, MAX_RANGES);
        if wanted < self.ranges.len() + count {
            return false;
        }
        let charged = to_u32(wanted.saturating_sub(FREE_RANGES));
        let added = to_usize(charged.saturating_sub(self.charged)) * size_of::<SentRange>();
        if !pool.charge(added, Purpose::Sent) {
            return false;
        }
        let is_allocated = self.ranges.try_reserve_exact(wanted - self.ranges.len()).is_ok();
        if is_allocated {
            self.charged = self.charged.max(charged);
        } else {
            pool.refund(added);
        }
        is_allocated
    }

    /// Frees the memory that an idle connection does not need.
    pub(crate) fn trim(&mut self, pool: &mut Pool) {
        if self.charged > 0 && self.ranges.is_empty() {
            self.ranges = VecDeque::new();
            pool.refund(to_usize(self.charged) * size_of::<SentRange>());
            self.charged = 0;
        }
    }

    /// Adds data that was sent for the first time, in segments of `segment` bytes. `has_tail` is true if the
    /// last one is shorter. The caller has made room with [`reserve`](Self::reserve).
    pub(crate) fn push(&mut self, (start, end): (Seq, Seq), (segment, has_tail): (u32, bool), now: u64) {
        self.size += end.since(start);
        self.end = end;
        // Data that is sent at the same time extends the last range.
        if let Some(last) = self.ranges.back_mut()
            && last.sent_at == now
            && last.state == RangeState::InFlight
            && !last.is_retransmitted
            && !last.has_tail
            && last.segment == segment
        {
            (last.end, last.has_tail) = (end, has_tail);
            return;
        }
        let state = RangeState::InFlight;
        self.ranges.push_back(SentRange {
            start,
            end,
            sent_at: now,
            state,
            is_retransmitted: false,
            has_tail,
            segment,
            snapshot: Snapshot::default(),
        });
    }

    /// Stores the state of the delivery rate in the last ranges, which have the data from `start` to `end`.
    pub(crate) fn stamp(&mut self, start: Seq, end: Seq, snapshot: Snapshot) {
        let first = self.ranges.partition_point(|range| range.end.is_up_to(start));
        for range in self.ranges.iter_mut().skip(first).take_while(|range| range.start.is_before(end)) {
            range.snapshot = snapshot;
        }
    }

    /// Records a retransmission in segments of `segment` bytes. If there is no memory to split a range, the
    /// whole range counts as retransmitted. The rest of it is then found to be lost again.
    pub(crate) fn retransmit(&mut self, (start, end): (Seq, Seq), segment: u32, now: u64) {
        self.split(start);
        self.split(end);
        if self.lost_from == start {
            self.lost_from = end;
        }
        let first = self.ranges.partition_point(|range| range.end.is_up_to(start));
        let mut last = first;
        for range in self.ranges.iter_mut().skip(first).take_while(|range| range.start.is_before(end)) {
            last += 1;
            match range.state {
                RangeState::Sacked => continue,
                RangeState::Lost => self.lost -= range.size(),
                RangeState::InFlight => (),
            }
            (range.state, range.sent_at, range.is_retransmitted) = (RangeState::InFlight, now, true);
            range.segment = segment;
        }
        self.merge(first.saturating_sub(1), last);
    }

    /// Splits the range around `at`; without memory it stays whole.
    fn split(&mut self, at: Seq) {
        let index = self.ranges.partition_point(|range| range.end.is_up_to(at));
        let Some(range) = self.ranges.get(index).copied().filter(|range| range.start.is_before(at)) else {
            return;
        };
        if self.spare() == 0 {
            return;
        }
        self.ranges.insert(index + 1, SentRange { start: at, ..range });
        if let Some(first) = self.ranges.get_mut(index) {
            (first.end, first.has_tail) = (at, false);
        }
    }

    /// Returns the part of a block that consists of whole segments, as they were sent.
    fn whole_segments(&self, block: SackBlock) -> SackBlock {
        let offset = |at: Seq| {
            let range = self.ranges.get(self.ranges.partition_point(|range| range.end.is_up_to(at)))?;
            let offset = at.since(range.start);
            let rest = offset.checked_rem(range.segment).filter(|&rest| rest > 0)?;
            Some((range, offset - rest))
        };
        let start = offset(block.start).map_or(block.start, |(range, before)| {
            range.start + before.saturating_add(range.segment).min(range.size())
        });
        let end = offset(block.end).map_or(block.end, |(range, before)| range.start + before);
        SackBlock { start, end }
    }

    /// Removes the ranges that `una` acknowledges. Calls `deliver` with each range that was not selectively
    /// acknowledged before.
    pub(crate) fn acknowledge(&mut self, una: Seq, mut deliver: impl FnMut(&SentRange)) {
        while let Some(first) = self.ranges.front_mut() {
            if una.is_up_to(first.start) {
                break;
            }
            let end = first.end;
            first.end = end.min(una);
            self.size -= first.size();
            match first.state {
                RangeState::Sacked => self.sacked -= first.size(),
                RangeState::Lost => {
                    self.lost -= first.size();
                    deliver(first);
                }
                RangeState::InFlight => deliver(first),
            }
            if first.end == end {
                self.ranges.pop_front();
            } else {
                (first.start, first.end) = (una, end);
            }
        }
    }

    /// Marks the segments that a SACK block covers. Calls `deliver` with each range that was not marked
    /// before.
    pub(crate) fn sack(&mut self, block: SackBlock, mut deliver: impl FnMut(&SentRange)) {
        let block = self.whole_segments(block);
        if block.end.is_up_to(block.start) {
            return;
        }
        self.split(block.start);
        self.split(block.end);
        let first = self.ranges.partition_point(|range| range.start.is_before(block.start));
        let mut index = first;
        while let Some(range) = self.ranges.get_mut(index).filter(|range| range.end.is_up_to(block.end)) {
            index += 1;
            match range.state {
                RangeState::Sacked => continue,
                RangeState::Lost => self.lost -= range.size(),
                RangeState::InFlight => (),
            }
            deliver(range);
            self.sacked += range.size();
            range.state = RangeState::Sacked;
        }
        self.merge(first.saturating_sub(1), index);
    }

    /// Merges selectively acknowledged neighbors among the ranges from `first` to `last`.
    fn merge(&mut self, first: usize, last: usize) {
        let is_sacked =
            |range: Option<&SentRange>| range.is_some_and(|range| range.state == RangeState::Sacked);
        for index in (first..last).rev() {
            if !is_sacked(self.ranges.get(index)) || !is_sacked(self.ranges.get(index + 1)) {
                continue;
            }
            let next = self.ranges.remove(index + 1);
            if let (Some(range), Some(next)) = (self.ranges.get_mut(index), next) {
                range.end = next.end;
            }
        }
    }

    /// Marks ranges in flight as lost if `is_lost` returns true, and calls `on_lost` with each. Stops when
    /// `is_lost` returns `None`.
    pub(crate) fn mark_lost(
        &mut self,
        mut is_lost: impl FnMut(&SentRange) -> Option<bool>,
        mut on_lost: impl FnMut(&SentRange),
    ) {
        for range in self.ranges.iter_mut().filter(|range| range.state == RangeState::InFlight) {
            match is_lost(range) {
                Some(true) => (),
                Some(false) => continue,
                None => break,
            }
            let known = if self.lost == 0 { range.start } else { self.lost_from };
            self.lost_from = known.min(range.start);
            range.state = RangeState::Lost;
            self.lost += range.size();
            on_lost(range);
        }
    }

    /// Marks the first `size` bytes as lost, if they are in flight; returns their number.
    pub(crate) fn mark_first_lost(&mut self, size: u32) -> u32 {
        let first = self.ranges.front().filter(|range| range.state == RangeState::InFlight);
        let Some(end) = first.map(|first| first.start + size.min(first.size())) else { return 0 };
        self.split(end);
        let Some(first) = self.ranges.front_mut() else { return 0 };
        first.state = RangeState::Lost;
        self.lost += first.size();
        self.lost_from = first.start;
        first.size()
    }

    /// Withdraws all selective acknowledgements if the first range has one. A peer that still had the data of
    /// the first range would have acknowledged it, so the peer has dropped its data (RFC 2018 §8). The ranges
    /// count as in flight again.
    pub(crate) fn forget_dropped(&mut self) {
        if self.ranges.front().is_none_or(|first| first.state != RangeState::Sacked) {
            return;
        }
        for range in self.ranges.iter_mut().filter(|range| range.state == RangeState::Sacked) {
            (range.state, range.is_retransmitted) = (RangeState::InFlight, true);
        }
        self.sacked = 0;
    }

    /// Marks lost ranges as in flight again: they were only late.
    pub(crate) fn unmark_lost(&mut self) {
        for range in self.ranges.iter_mut().filter(|range| range.state == RangeState::Lost) {
            range.state = RangeState::InFlight;
        }
        self.lost = 0;
    }

    /// First range that must be retransmitted.
    pub(crate) fn first_lost(&mut self) -> Option<&SentRange> {
        if self.lost == 0 {
            return None;
        }
        let from = self.ranges.partition_point(|range| range.start.is_before(self.lost_from));
        let lost = self.ranges.iter().skip(from).find(|range| range.state == RangeState::Lost)?;
        self.lost_from = lost.start;
        Some(lost)
    }

    /// First range.
    pub(crate) fn first(&self) -> Option<&SentRange> {
        self.ranges.front()
    }

    /// Last range.
    pub(crate) fn last(&self) -> Option<&SentRange> {
        self.ranges.back()
    }

    /// Drops all ranges.
    pub(crate) fn clear(&mut self, pool: &mut Pool) {
        self.ranges.clear();
        self.trim(pool);
        *self = Self::new(self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::{FREE_RANGES, MAX_RANGES, RangeState, SPLITS, Scoreboard, SentRange};
    use crate::buffers::Pool;
    use crate::segment::SackBlock;
    use crate::seq::Seq;
    use proptest::collection::vec;
    use proptest::{prop_assert_eq, proptest};
    use std::vec::Vec;

    const START: u32 = u32::MAX - 20;

    fn seq(offset: u32) -> Seq {
        Seq(START) + offset
    }

    /// Sends `count` segments of `size` bytes at once, and another one of `tail` bytes.
    fn sent(count: u32, size: u32, tail: u32, pool: &mut Pool) -> Scoreboard {
        let mut board = Scoreboard::new(seq(0));
        assert!(board.reserve(pool));
        board.push((seq(0), seq(count * size + tail)), (size, tail > 0), 1);
        board
    }

    /// Selectively acknowledges bytes; returns how many of them count.
    fn sack(board: &mut Scoreboard, start: u32, end: u32, pool: &mut Pool) -> u32 {
        let mut count = 0;
        board.reserve_splits(pool);
        board.sack(SackBlock { start: seq(start), end: seq(end) }, |range| count += range.size());
        count
    }

    /// The attack of CVE-2019-11478 with single bytes.
    #[test]
    fn blocks_count_for_whole_segments() {
        let mut pool = Pool::new(1 << 20);
        let mut board = sent(45, 1448, 100, &mut pool);
        for byte in (0..65_160).step_by(2) {
            assert_eq!(sack(&mut board, byte, byte + 1, &mut pool), 0);
        }
        assert_eq!(board.ranges().count(), 1);
        assert!(pool.used() <= SPLITS * size_of::<SentRange>());
        assert_eq!(sack(&mut board, 100, 1448 * 3 + 1000, &mut pool), 2 * 1448);
        assert_eq!(sack(&mut board, 65_159, 65_260, &mut pool), 100);
        assert_eq!(sack(&mut board, 65_160, 65_200, &mut pool), 0);
        assert_eq!(board.ranges().count(), 4);
    }

    #[test]
    fn ranges_are_bounded_and_charged() {
        let mut pool = Pool::new(1 << 20);
        let count = 3 * u32::try_from(MAX_RANGES).unwrap();
        let mut board = sent(count, 50, 0, &mut pool);
        for segment in (1..count).step_by(2) {
            sack(&mut board, 50 * segment, 50 * (segment + 1), &mut pool);
        }
        assert_eq!(board.ranges().count(), MAX_RANGES);
        assert_eq!(pool.used(), (MAX_RANGES - FREE_RANGES) * size_of::<SentRange>());
        // Nothing new can be sent at the bound, but lost data can be retransmitted.
        assert!(!board.reserve(&mut pool));
        board.mark_lost(|_| Some(true), |_| ());
        while let Some(lost) = board.first_lost().copied() {
            board.retransmit((lost.start, lost.start + 50), 50, 2);
        }
        assert_eq!((board.lost(), board.ranges().count()), (0, MAX_RANGES));
        board.acknowledge(seq(50 * count), |_| ());
        board.trim(&mut pool);
        assert_eq!((board.size(), pool.used()), (0, 0));
    }

    #[test]
    #[ignore = "prints a time"]
    fn time_of_an_acknowledgement_at_the_bound() {
        let mut pool = Pool::new(1 << 20);
        let count = 3 * u32::try_from(MAX_RANGES).unwrap();
        let mut board = sent(count, 50, 0, &mut pool);
        for segment in (1..count).step_by(2) {
            sack(&mut board, 50 * segment, 50 * (segment + 1), &mut pool);
        }
        let start = std::time::Instant::now();
        for _ in 0..1000 {
            for block in 0..4 {
                sack(&mut board, 50 * block, 50 * block + 1, &mut pool);
            }
            board.mark_lost(|_| Some(false), |_| ());
        }
        std::eprintln!("{} ns, {} ranges", start.elapsed().as_nanos() / 1000, board.ranges().count());
    }

    /// Without memory in the pool, a connection still sends, a few ranges at a time.
    #[test]
    fn few_ranges_need_no_memory_of_the_pool() {
        let mut pool = Pool::new(0);
        let mut board = Scoreboard::new(seq(0));
        let mut count = 0;
        while board.reserve(&mut pool) {
            board.push((seq(2000 * count), seq(2000 * (count + 1))), (1000, false), u64::from(count));
            count += 1;
        }
        assert_eq!(board.ranges().count(), FREE_RANGES - 1);
        assert_eq!(sack(&mut board, 1000, 2000, &mut pool), 1000);
        // The second range cannot be split: no part of it is known to have arrived, and all of it counts as
        // retransmitted.
        assert_eq!(sack(&mut board, 3000, 4000, &mut pool), 0);
        board.mark_lost(|_| Some(true), |_| ());
        let first = board.first_lost().unwrap().start;
        board.retransmit((first, first + 1000), 1000, 100);
        let second = board.first_lost().unwrap().start;
        board.retransmit((second, second + 1000), 1000, 100);
        assert_eq!((first, second, board.first_lost().unwrap().start), (seq(0), seq(2000), seq(4000)));
    }

    proptest! {
        /// Compares the scoreboard with a model that has one state for each byte.
        #[test]
        fn scoreboard_agrees_with_a_byte_model(steps in vec((0..5_u8, 0..60_u32, 1..30_u32), 0..80)) {
            let mut board = Scoreboard::new(seq(0));
            let (mut una, mut model) = (0_u32, Vec::new());
            let mut pool = Pool::new(1 << 20);
            for (now, (step, at, size)) in (0..).zip(steps) {
                board.reserve_splits(&mut pool);
                let nxt = una + u32::try_from(model.len()).unwrap();
                let (start, end) = (una + at.min(nxt - una), una + (at + size).min(nxt - una));
                let part = usize::try_from(start - una).unwrap()..usize::try_from(end - una).unwrap();
                let (mut delivered, mut expected) = (0, 0);
                match step {
                    0 => {
                        // Each byte is a segment.
                        board.push((seq(nxt), seq(nxt + size)), (1, false), now);
                        model.extend((0..size).map(|_| RangeState::InFlight));
                    }
                    1 => {
                        board.acknowledge(seq(start), |range| delivered += range.size());
                        let gone = model.drain(..part.start);
                        expected = gone.filter(|&state| state != RangeState::Sacked).count();
                        una = start;
                    }
                    2 => {
                        board.sack(SackBlock { start: seq(start), end: seq(end) }, |range| delivered += range.size());
                        for state in &mut model[part] {
                            expected += usize::from(*state != RangeState::Sacked);
                            *state = RangeState::Sacked;
                        }
                    }
                    3 => {
                        board.retransmit((seq(start), seq(end)), 1, now);
                        let kept = |state: &&mut RangeState| **state != RangeState::Sacked;
                        model[part].iter_mut().filter(kept).for_each(|state| *state = RangeState::InFlight);
                    }
                    _ => {
                        delivered = board.mark_first_lost(size);
                        let first = model.iter().position(|&state| state == RangeState::InFlight);
                        if first == Some(0) {
                            let first = board.ranges().next().unwrap().size() as usize;
                            model[..first].fill(RangeState::Lost);
                            expected = first;
                        }
                    }
                }
                prop_assert_eq!(usize::try_from(delivered).unwrap(), expected);
                let states: Vec<_> = board
                    .ranges()
                    .flat_map(|range| (0..range.size()).map(move |_| range.state))
                    .collect();
                prop_assert_eq!(&states, &model);
                prop_assert_eq!((board.start(), board.end()), (seq(una), seq(una) + board.size()));
                let count = |wanted| model.iter().filter(|&&state| state == wanted).count();
                prop_assert_eq!(board.lost() as usize, count(RangeState::Lost));
                prop_assert_eq!(board.sacked() as usize, count(RangeState::Sacked));
                prop_assert_eq!(board.in_flight() as usize, count(RangeState::InFlight));
                let pairs: Vec<_> = board.ranges().map(|range| range.state).collect();
                prop_assert_eq!(pairs.windows(2).filter(|pair| *pair == [RangeState::Sacked; 2]).count(), 0);
            }
        }
    }
}
