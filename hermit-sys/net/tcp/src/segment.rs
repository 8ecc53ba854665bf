//! Segments of TCP, independent of their format in packets.

use bitflags::bitflags;

use crate::seq::Seq;

/// Maximum number of SACK blocks in a segment: as many as fit into 40 bytes of options (RFC 2018 §3).
pub const MAX_SACK_BLOCKS: usize = 4;

bitflags! {
    /// Control bits of a segment (RFC 9293 §3.1, RFC 3168 §6.1), with their values in the header.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Flags: u8 {
        /// The sender sends no more.
        const FIN = 0x01;
        /// Synchronises sequence numbers.
        const SYN = 0x02;
        /// Resets the connection.
        const RST = 0x04;
        /// The data should be delivered at once; ignored by the receiver.
        const PSH = 0x08;
        /// The acknowledgement number is valid.
        const ACK = 0x10;
        /// The urgent pointer is valid.
        const URG = 0x20;
        /// The receiver echoes a congestion mark.
        const ECE = 0x40;
        /// The sender has reduced its congestion window.
        const CWR = 0x80;
    }
}

/// A range of sequence numbers, `start..end`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlock {
    /// First number.
    pub start: Seq,
    /// Number after the last one.
    pub end: Seq,
}

/// SACK blocks of a segment, in its order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SackBlocks {
    blocks: [SackBlock; MAX_SACK_BLOCKS],
    count: usize,
}

impl SackBlocks {
    /// Adds a block after the others; without effect if there are [`MAX_SACK_BLOCKS`].
    pub fn push(&mut self, block: SackBlock) {
        if let Some(slot) = self.blocks.get_mut(self.count) {
            *slot = block;
            self.count += 1;
        }
    }

    /// Returns the valid blocks of an acknowledgement, which are between `ack` and `nxt`. The first block is
    /// returned separately if it reports a duplicate: then it is before `ack`, or within the second block
    /// (RFC 2883 §4).
    pub(crate) fn split_duplicate(&self, ack: Seq, nxt: Seq) -> (Self, Option<SackBlock>) {
        let mut blocks = Self::default();
        if self.count == 0 {
            return (blocks, None);
        }
        let mut given = self.as_slice();
        let mut duplicate = None;
        if let [first, rest @ ..] = given {
            let is_within =
                |next: &SackBlock| next.start.is_up_to(first.start) && first.end.is_up_to(next.end);
            if first.end.is_up_to(ack) || rest.first().is_some_and(is_within) {
                duplicate = Some(*first).filter(|block| block.start.is_before(block.end));
                given = rest;
            }
        }
        for block in given {
            let is_sane = ack.is_up_to(block.start) && block.start.is_before(block.end);
            if is_sane && block.end.is_up_to(nxt) {
                blocks.push(*block);
            }
        }
        (blocks, duplicate)
    }

    /// The blocks.
    #[must_use]
    pub fn as_slice(&self) -> &[SackBlock] {
        self.blocks.get(..self.count).unwrap_or(&[])
    }
}

/// The timestamp option (RFC 7323 §3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timestamp {
    /// TSval: the sender's clock.
    pub value: u32,
    /// TSecr: the TSval that is echoed.
    pub echo: u32,
}

/// Options of a segment. The default has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Maximum segment size, in segments with SYN (RFC 9293 §3.7.1).
    pub mss: Option<u16>,
    /// Window scale, in segments with SYN (RFC 7323 §2).
    pub window_scale: Option<u8>,
    /// SACK-permitted, in segments with SYN (RFC 2018 §2).
    pub sack_permitted: bool,
    /// Timestamps.
    pub timestamp: Option<Timestamp>,
    /// SACK blocks.
    pub sack: SackBlocks,
}

impl Options {
    /// Bytes of the options in a header, padded to a multiple of 4, with timestamps and SACK blocks aligned
    /// as RFC 7323, appendix A, proposes.
    #[must_use]
    pub fn size(&self) -> usize {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let window_scale = if self.window_scale.is_some() { 4 } else { 0 };
        let timestamp = if self.timestamp.is_some() { 12 } else { 0 };
        // In a SYN with timestamps, SACK-permitted replaces their padding.
        let sack_permitted = if self.sack_permitted && self.timestamp.is_none() { 4 } else { 0 };
        let sack = match self.sack.as_slice().len() {
            0 => 0,
            count => 4 + 8 * count,
        };
        mss + window_scale + timestamp + sack_permitted + sack
    }
}

/// The header of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Sequence number of the first byte, or of SYN.
    pub seq: Seq,
    /// Acknowledgement number; 0 without ACK.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// The window field, not scaled.
    pub window: u16,
    /// Urgent pointer: distance from `seq` to the byte after the urgent one.
    pub urgent: u16,
    /// Options.
    pub options: Options,
}

/// A received segment with a correct checksum.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Its header.
    pub header: Header,
    /// Its data.
    pub payload: &'a [u8],
    /// True if the IP header reports "congestion experienced" (RFC 3168 §5).
    pub is_marked: bool,
}

impl Segment<'_> {
    /// Length in sequence numbers: data, SYN and FIN.
    #[must_use]
    pub fn size(&self) -> u32 {
        let data = u32::try_from(self.payload.len()).unwrap_or(u32::MAX);
        data.wrapping_add(u32::from(self.header.flags.contains(Flags::SYN)))
            .wrapping_add(u32::from(self.header.flags.contains(Flags::FIN)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Flags, Header, MAX_SACK_BLOCKS, Options, SackBlock, SackBlocks, Segment, Timestamp};
    use crate::seq::Seq;

    #[test]
    fn options_fit_into_a_header() {
        let syn = Options {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            timestamp: Some(Timestamp::default()),
            ..Options::default()
        };
        assert_eq!(syn.size(), 20);
        let mut sack = SackBlocks::default();
        for start in 0..6 {
            sack.push(SackBlock { start: Seq(start), end: Seq(start + 1) });
        }
        assert_eq!(sack.as_slice().len(), MAX_SACK_BLOCKS);
        assert_eq!(Options { sack, ..Options::default() }.size(), 36);
    }

    #[test]
    fn syn_and_fin_have_a_number_each() {
        let header = Header { flags: Flags::SYN | Flags::FIN | Flags::ACK, ..Header::default() };
        assert_eq!(Segment { header, payload: &[0; 3], is_marked: false }.size(), 5);
    }
}
