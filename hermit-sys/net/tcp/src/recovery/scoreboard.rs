//! What has been sent and is not acknowledged: when, and what became of it (RFC 6675 §3, RFC 8985 §5.2).

use alloc::collections::VecDeque;

use crate::segment::SackBlock;
use crate::seq::Seq;

/// State of a range of sequence numbers that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeState {
    /// On its way, as far as is known.
    InFlight,
    /// Selectively acknowledged.
    Sacked,
    /// To be retransmitted.
    Lost,
}

/// What was known of the delivery rate when a range was sent. Times are in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// Bytes that had been delivered (P.delivered) and lost (P.lost).
    pub(super) delivered: Seq,
    pub(super) lost: u32,
    /// Bytes in flight, with the range (P.tx_in_flight).
    pub(super) in_flight: u32,
    /// Time since the last delivery (P.delivered_time), and since the newest range delivered was sent (P.first_send_time).
    pub(super) since_delivery: u32,
    pub(super) since_first_sent: u32,
    pub(super) is_app_limited: bool,
}

/// A range of sequence numbers that was sent at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SentRange {
    pub(crate) start: Seq,
    pub(crate) end: Seq,
    /// When it was sent last.
    pub(crate) sent_at: u64,
    pub(crate) state: RangeState,
    pub(crate) is_retransmitted: bool,
    /// For samples of the delivery rate; the default without them.
    pub(crate) snapshot: Snapshot,
}

impl SentRange {
    pub(crate) const fn size(&self) -> u32 {
        self.end.since(self.start)
    }
}

/// All ranges from SND.UNA to SND.NXT, in order and without gaps. Ranges that were sent together are one; those that were
/// selectively acknowledged are merged.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    ranges: VecDeque<SentRange>,
    /// SND.NXT
    end: Seq,
    sacked: u32,
    lost: u32,
    size: u32,
}

impl Scoreboard {
    /// An empty one; the next range begins at `end`.
    pub(crate) const fn new(end: Seq) -> Self {
        Self { ranges: VecDeque::new(), end, sacked: 0, lost: 0, size: 0 }
    }

    /// SND.UNA
    pub(crate) fn start(&self) -> Seq {
        self.end - self.size
    }

    /// SND.NXT
    pub(crate) const fn end(&self) -> Seq {
        self.end
    }

    /// Moves the end of an empty scoreboard.
    pub(crate) fn skip(&mut self, size: u32) {
        self.end = self.end + size;
    }

    /// Bytes on their way ("pipe").
    pub(crate) const fn in_flight(&self) -> u32 {
        self.size - self.sacked - self.lost
    }

    /// Bytes to be retransmitted.
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

    /// Makes room for what the next transmission may add; `false` without memory.
    pub(crate) fn reserve(&mut self) -> bool {
        // A retransmission may split a range at both ends.
        self.ranges.try_reserve(2).is_ok()
    }

    /// Adds what was sent for the first time. There is room: see [`reserve`](Self::reserve).
    pub(crate) fn push(&mut self, start: Seq, end: Seq, now: u64) {
        self.size += end.since(start);
        self.end = end;
        if let Some(last) = self.ranges.back_mut()
            && last.sent_at == now
            && last.state == RangeState::InFlight
            && !last.is_retransmitted
        {
            last.end = end;
            return;
        }
        let state = RangeState::InFlight;
        self.ranges.push_back(SentRange {
            start,
            end,
            sent_at: now,
            state,
            is_retransmitted: false,
            snapshot: Snapshot::default(),
        });
    }

    /// Notes what was known of the delivery rate when the data from `start` to `end` was sent, last of its ranges.
    pub(crate) fn stamp(&mut self, start: Seq, end: Seq, snapshot: Snapshot) {
        let first = self.ranges.partition_point(|range| range.end.is_up_to(start));
        for range in self.ranges.iter_mut().skip(first).take_while(|range| range.start.is_before(end)) {
            range.snapshot = snapshot;
        }
    }

    /// Takes note of a retransmission. There is room.
    pub(crate) fn retransmit(&mut self, start: Seq, end: Seq, now: u64) {
        self.split(start);
        self.split(end);
        let first = self.ranges.partition_point(|range| range.start.is_before(start));
        let mut last = first;
        for range in self.ranges.iter_mut().skip(first).take_while(|range| range.end.is_up_to(end)) {
            last += 1;
            match range.state {
                RangeState::Sacked => continue,
                RangeState::Lost => self.lost -= range.size(),
                RangeState::InFlight => (),
            }
            (range.state, range.sent_at, range.is_retransmitted) = (RangeState::InFlight, now, true);
        }
        self.merge(first.saturating_sub(1), last);
    }

    /// Has a range begin at `at`; without memory it stays whole.
    fn split(&mut self, at: Seq) {
        let index = self.ranges.partition_point(|range| range.end.is_up_to(at));
        let Some(range) = self.ranges.get(index).copied().filter(|range| range.start.is_before(at)) else {
            return;
        };
        if self.ranges.try_reserve(1).is_err() {
            return;
        }
        self.ranges.insert(index + 1, SentRange { start: at, ..range });
        if let Some(first) = self.ranges.get_mut(index) {
            first.end = at;
        }
    }

    /// Removes what is acknowledged up to `una`; `deliver` gets each range that was not selectively acknowledged before.
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
        // An idle connection keeps no memory for it.
        if self.ranges.is_empty() && self.ranges.capacity() > 8 {
            self.ranges = VecDeque::new();
        }
    }

    /// Marks what a SACK block covers; `deliver` gets each range that was not marked before.
    pub(crate) fn sack(&mut self, block: SackBlock, mut deliver: impl FnMut(&SentRange)) {
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

    /// Merges neighbors among the ranges from `first` to `last` that are selectively acknowledged.
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

    /// Marks those ranges in flight as lost for which `is_lost` says so; `on_lost` gets each. Stops where it says `None`.
    pub(crate) fn mark_lost(
        &mut self,
        mut is_lost: impl FnMut(&SentRange) -> Option<bool>,
        mut on_lost: impl FnMut(&SentRange),
    ) {
        for range in self.ranges.iter_mut().filter(|range| range.state == RangeState::InFlight) {
            match is_lost(range) {
                Some(true) => {
                    range.state = RangeState::Lost;
                    self.lost += range.size();
                    on_lost(range);
                }
                Some(false) => (),
                None => break,
            }
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
        first.size()
    }

    /// Takes back what was marked as lost: it was late.
    pub(crate) fn unmark_lost(&mut self) {
        for range in self.ranges.iter_mut().filter(|range| range.state == RangeState::Lost) {
            range.state = RangeState::InFlight;
        }
        self.lost = 0;
    }

    /// The first range to be retransmitted.
    pub(crate) fn first_lost(&self) -> Option<&SentRange> {
        if self.lost == 0 {
            return None;
        }
        self.ranges.iter().find(|range| range.state == RangeState::Lost)
    }

    /// The first and the last range.
    pub(crate) fn first(&self) -> Option<&SentRange> {
        self.ranges.front()
    }

    pub(crate) fn last(&self) -> Option<&SentRange> {
        self.ranges.back()
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.end);
    }
}

#[cfg(test)]
mod tests {
    use super::{RangeState, Scoreboard};
    use crate::segment::SackBlock;
    use crate::seq::Seq;
    use proptest::collection::vec;
    use proptest::{prop_assert_eq, proptest};
    use std::vec::Vec;

    const START: u32 = u32::MAX - 20;

    fn seq(offset: u32) -> Seq {
        Seq(START) + offset
    }

    proptest! {
        /// Against one state for each byte.
        #[test]
        fn scoreboard_agrees_with_a_byte_model(steps in vec((0..5_u8, 0..60_u32, 1..30_u32), 0..80)) {
            let mut board = Scoreboard::new(seq(0));
            let (mut una, mut model) = (0_u32, Vec::new());
            for (now, (step, at, size)) in (0..).zip(steps) {
                let nxt = una + u32::try_from(model.len()).unwrap();
                let (start, end) = (una + at.min(nxt - una), una + (at + size).min(nxt - una));
                let part = usize::try_from(start - una).unwrap()..usize::try_from(end - una).unwrap();
                let (mut delivered, mut expected) = (0, 0);
                match step {
                    0 => {
                        board.push(seq(nxt), seq(nxt + size), now);
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
                        board.retransmit(seq(start), seq(end), now);
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
