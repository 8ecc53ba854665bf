//! Resets of passt that refuse a connection.
//!
//! Version 2023-03 of passt (Debian 12) answers the SYN for a closed port with a reset that has the right acknowledgment number, but not
//! the ACK flag. A host ignores such a reset (RFC 9293 §3.10.7.3), and its `connect` times out instead of being refused. So the
//! flag is added. In a connection that is open only the sequence number of a reset counts.

use super::packet::Packet;

/// Protocol number of TCP, and its offset in bytes in IPv4 and IPv6 headers.
const TCP: u8 = 6;
const PROTOCOL_V4: usize = 9;
const PROTOCOL_V6: usize = 6;

/// Size in bytes of the IPv6 header.
const HEADER_V6: usize = 40;

/// Offsets in bytes of fields of a TCP header (RFC 9293 §3.1).
const ACKNOWLEDGMENT: usize = 8;
const FLAGS: usize = 13;
const CHECKSUM: usize = 16;

/// Flags of TCP.
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

/// Adds the ACK flag to a reset that has an acknowledgment number.
pub(super) fn add_acknowledgment(frame: &mut [u8]) {
    let Some(start) = segment(frame) else { return };
    let Some(segment) = frame.get_mut(start..) else { return };
    let Some(&flags) = segment.get(FLAGS) else { return };
    let number = segment.get(ACKNOWLEDGMENT..).and_then(|field| field.first_chunk::<4>());
    if flags & (SYN | RST | ACK) != RST || number == Some(&[0; 4]) {
        return;
    }
    let Some(checksum) = segment.get_mut(CHECKSUM..).and_then(|field| field.first_chunk_mut::<2>()) else {
        return;
    };
    // RFC 1624: the word with the flags grows by the flag, so the complement of the sum shrinks by it, with an end-around borrow.
    let (sum, has_borrow) = u16::from_be_bytes(*checksum).overflowing_sub(ACK.into());
    *checksum = (sum - u16::from(has_borrow)).to_be_bytes();
    segment.get_mut(FLAGS).into_iter().for_each(|flags| *flags |= ACK);
}

/// Offset of the TCP segment in a frame of passt's, which has no extension headers.
fn segment(frame: &[u8]) -> Option<usize> {
    let (packet, size) = match Packet::in_frame(frame)? {
        Packet::V4(packet) if *packet.get(PROTOCOL_V4)? == TCP => {
            (packet, usize::from(packet.first()? & 0xf) * 4)
        }
        Packet::V6(packet) if *packet.get(PROTOCOL_V6)? == TCP => (packet, HEADER_V6),
        _ => return None,
    };
    Some(frame.len() - packet.len() + size)
}

#[cfg(test)]
mod tests {
    use super::{CHECKSUM, FLAGS, add_acknowledgment};
    use crate::devices::net::egress::test_frames::{SYN_ACK, tcp, udp, v4, v6};

    /// The sum of the 16-bit words of a segment; all bits are set if its checksum is right, for a pseudo-header of zero.
    fn sum(segment: &[u8]) -> u16 {
        let words = segment.as_chunks::<2>().0.iter().map(|word| u32::from(u16::from_be_bytes(*word)));
        let add = |sum: u16, word: u32| {
            let sum = u32::from(sum) + word;
            u16::try_from((sum & 0xffff) + (sum >> 16)).unwrap()
        };
        words.fold(0, add)
    }

    /// A segment with a right checksum, which `first` moves through its values.
    fn segment(flags: u8, first: u16) -> Vec<u8> {
        let mut segment = tcp(80, flags);
        segment[..2].copy_from_slice(&first.to_be_bytes());
        let checksum = !sum(&segment);
        segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
        segment
    }

    #[test]
    fn reset_with_an_acknowledgment_number_acknowledges() {
        for first in (0..=u16::MAX).step_by(7) {
            for (mut frame, start) in
                [(v4("10.0.0.1", 6, &segment(4, first)), 34), (v6("fd00::1", 6, &segment(4, first)), 54)]
            {
                add_acknowledgment(&mut frame);
                assert_eq!((frame[start + FLAGS], sum(&frame[start..])), (0x14, 0xffff), "{first}");
            }
        }
    }

    #[test]
    fn other_frames_stay_as_they_are() {
        let mut without_number = segment(4, 1);
        without_number[8..12].fill(0);
        let frames = [SYN_ACK, 0x10, 0x14, 2].map(|flags| v4("10.0.0.1", 6, &segment(flags, 1)));
        let others = [v4("10.0.0.1", 6, &without_number), v4("10.0.0.1", 17, &udp(4, 4)), vec![4; 60]];
        for frame in frames.into_iter().chain(others) {
            let mut changed = frame.clone();
            add_acknowledgment(&mut changed);
            assert_eq!(changed, frame);
        }
        let whole = v4("10.0.0.1", 6, &segment(4, 1));
        for length in 0..34 + CHECKSUM + 2 {
            let mut truncated = whole[..length].to_vec();
            add_acknowledgment(&mut truncated);
            assert_eq!(truncated, whole[..length]);
        }
    }
}
