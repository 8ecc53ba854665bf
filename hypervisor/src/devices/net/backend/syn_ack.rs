//! What passt must not read together with a SYN-ACK: a later segment of its connection.
//!
//! A guest repeats a SYN-ACK that has not been acknowledged after a second (RFC 6298 §2), or resets the connection. If passt has
//! not run for so long, it reads both in one batch. Version 2023-03 counts the packets of a batch with a SYN-ACK wrongly, and
//! loops for ever. So until passt has read a SYN-ACK, the next segments of its connection are dropped. The guest repeats them: a
//! SYN-ACK when it is not acknowledged, a reset when the next segment of the connection arrives.
//!
//! passt has read a SYN-ACK when it acknowledges it, or when the stream's unread bytes are all behind it. Either is certain,
//! and one of both is soon seen: while other connections keep the stream full, the first; if the connection is reset, the second.
//!
//! This is for guests that keep to the protocols. With other frames, such as SYN-ACKs behind extension headers of IPv6, a guest
//! harms its own network only.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::raw::c_int;

use rustix::ioctl::{Getter, Opcode, ioctl};

use super::packet::Packet;

/// Request of ioctl(2): the memory that unread bytes of a socket take at its peer (unix(7), linux/sockios.h). It does not encode
/// a type and a size.
pub(crate) const SIOCOUTQ: Opcode = 0x5411;

/// Maximum number of SYN-ACKs that are remembered. Further ones are dropped while all of these are unread: guests repeat them.
const MAX_UNREAD: usize = 8192;

/// Offsets in bytes of fields of IPv4 and IPv6 headers.
const PROTOCOL_V4: usize = 9;
const ADDRESSES_V4: usize = 12;
const PROTOCOL_V6: usize = 6;
const ADDRESSES_V6: usize = 8;

/// Sizes in bytes of both addresses of a packet.
const BOTH_V4: usize = 8;
const BOTH_V6: usize = 32;

/// Protocol number of TCP, and offset in bytes of the flags in its header.
const TCP: u8 = 6;
const FLAGS: usize = 13;

/// Flags of TCP (RFC 9293 §3.1).
const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;
const SYN_ACK: u8 = SYN | ACK;

/// Address and port of one end of a connection. An address of IPv4 is filled up with zeros.
type End = ([u8; BOTH_V6 / 2], [u8; 2]);

/// Source and destination of a connection's segments.
type Connection = [End; 2];

/// SYN-ACKs that passt may not have read: where each ends in the stream to passt, in bytes from its beginning.
#[derive(Debug, Default)]
pub(super) struct UnreadSynAcks(HashMap<Connection, u64>);

impl UnreadSynAcks {
    /// Whether a frame of the guest is to be written, which would end at `end` in the stream. `read` returns how many bytes
    /// of the stream passt has read, or less.
    pub(super) fn admit(&mut self, frame: &[u8], end: u64, read: impl FnOnce() -> u64) -> bool {
        let Some((segment, connection)) = parse(frame) else { return true };
        let is_syn_ack = segment == Segment::SynAck;
        let is_full = is_syn_ack && self.0.len() >= MAX_UNREAD;
        if is_full || self.0.contains_key(&connection) {
            let read = read();
            self.0.retain(|_, end| *end > read);
            if self.0.len() >= MAX_UNREAD || self.0.contains_key(&connection) {
                return false;
            }
        }
        if is_syn_ack {
            self.0.insert(connection, end);
        }
        true
    }

    /// Takes note of a frame of passt. An acknowledgment shows that passt has read the SYN-ACK of its connection. A reset does not:
    /// passt sends it when its client gives up, too.
    pub(super) fn receive(&mut self, frame: &[u8]) {
        if self.0.is_empty() {
            return;
        }
        if let Some((Segment::Acknowledgment, connection)) = parse(frame) {
            let [passt, guest] = connection;
            self.0.remove(&[guest, passt]);
        }
    }
}

/// How many of the bytes that were written to a UNIX socket its peer has read at least.
///
/// The socket's unread bytes take more memory than their number, so the result may be less than what was read, never more.
pub(super) fn read(socket: &File, written: u64) -> u64 {
    let unread = unread(socket).ok().and_then(|size| u64::try_from(size).ok());
    unread.map_or(0, |unread| written.saturating_sub(unread))
}

/// Memory that the socket's unread bytes take, in bytes.
#[expect(unsafe_code, reason = "a request of ioctl(2)")]
fn unread(socket: &File) -> io::Result<c_int> {
    // SAFETY: the request of this opcode writes a `c_int`, for sockets (unix(7)) as for terminals (TIOCOUTQ, tty_ioctl(2)); other
    // files refuse it.
    let request = unsafe { Getter::<SIOCOUTQ, c_int>::new() };
    // SAFETY: the request writes to its own memory only, as above.
    Ok(unsafe { ioctl(socket, request) }?)
}

/// A segment, by its flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Segment {
    SynAck,
    /// What follows a handshake.
    Acknowledgment,
    /// The first SYN, or a reset.
    Other,
}

/// The segment in a frame, and its connection; `None` if there is none.
fn parse(frame: &[u8]) -> Option<(Segment, Connection)> {
    let (addresses, segment) = match Packet::in_frame(frame)? {
        Packet::V4(packet) if *packet.get(PROTOCOL_V4)? == TCP => {
            let header_size = usize::from(packet.first()? & 0xf) * 4;
            (packet.get(ADDRESSES_V4..ADDRESSES_V4 + BOTH_V4)?, packet.get(header_size..)?)
        }
        Packet::V6(packet) if *packet.get(PROTOCOL_V6)? == TCP => {
            packet.get(ADDRESSES_V6..)?.split_at_checked(BOTH_V6)?
        }
        _ => return None,
    };
    let kind = match segment.get(FLAGS)? & (SYN | RST | ACK) {
        SYN_ACK => Segment::SynAck,
        ACK => Segment::Acknowledgment,
        _ => Segment::Other,
    };
    let (source, destination) = addresses.split_at(addresses.len() / 2);
    let ports = segment.first_chunk::<4>()?.as_chunks::<2>().0;
    Some((kind, [(pad(source)?, *ports.first()?), (pad(destination)?, *ports.get(1)?)]))
}

/// An address, filled up with zeros.
fn pad(address: &[u8]) -> Option<[u8; BOTH_V6 / 2]> {
    let mut padded = [0; BOTH_V6 / 2];
    padded.get_mut(..address.len())?.copy_from_slice(address);
    Some(padded)
}

#[cfg(test)]
mod tests {
    use super::{ACK, MAX_UNREAD, RST, SYN, SYN_ACK, Segment, UnreadSynAcks, parse, read};
    use proptest::prelude::*;
    use std::fs::File;
    use std::io::{Read, Write};
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    /// A segment to this port, in a packet of IPv4 with options or of IPv6.
    fn frame(is_v6: bool, port: u16, flags: u8) -> Vec<u8> {
        let packet = if is_v6 {
            [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 6, 64][..], &[1; 16], &[2; 16]].concat()
        } else {
            [&[8, 0, 0x46, 0, 0, 44, 0, 0, 0, 0, 64, 6, 0, 0][..], &[1; 4], &[2; 4], &[1; 4]].concat()
        };
        let segment = [&[0x1f, 0x90][..], &port.to_be_bytes(), &[7; 8], &[0x50, flags], &[0; 6]].concat();
        [&[3; 12][..], &packet, &segment].concat()
    }

    /// The same segment from the other end.
    fn reversed(is_v6: bool, port: u16, flags: u8) -> Vec<u8> {
        let mut frame = frame(is_v6, port, flags);
        let (addresses, size, ports) = if is_v6 { (22, 16, 54) } else { (26, 4, 38) };
        frame[addresses..addresses + 2 * size].rotate_left(size);
        frame[ports..ports + 4].rotate_left(2);
        frame
    }

    #[test]
    fn segments_are_recognised_by_their_flags() {
        for (is_v6, source) in [(false, [1, 1, 1, 1, 0]), (true, [1; 5])] {
            let kind = |flags| parse(&frame(is_v6, 1, flags)).unwrap().0;
            assert!([ACK, ACK | 1, 0x18].iter().all(|&flags| kind(flags) == Segment::Acknowledgment));
            // ECE (RFC 3168 §6.1.1).
            assert!([SYN_ACK, SYN_ACK | 0x40].iter().all(|&flags| kind(flags) == Segment::SynAck));
            let others = [0, SYN, RST, RST | ACK, RST | SYN_ACK, 0x29];
            assert!(others.iter().all(|&flags| kind(flags) == Segment::Other));
            let (_, [guest, client]) = parse(&frame(is_v6, 0x0102, SYN_ACK)).unwrap();
            assert_eq!((&guest.0[..5], guest.1), (&source[..], [0x1f, 0x90]));
            assert_eq!((&client.0[..4], client.1), (&[2; 4][..], [1, 2]));
            let (_, connection) = parse(&reversed(is_v6, 0x0102, ACK)).unwrap();
            assert_eq!(connection, [client, guest]);
        }
    }

    #[test]
    fn truncated_and_other_frames_are_none() {
        for is_v6 in [false, true] {
            let whole = frame(is_v6, 1, SYN_ACK);
            let flags = whole.len() - 7;
            assert!((0..=flags).all(|length| parse(&whole[..length]).is_none()));
            assert!(parse(&whole[..=flags]).is_some());
            let protocol = if is_v6 { 20 } else { 23 };
            let mut udp = whole.clone();
            udp[protocol] = 17;
            assert_eq!(parse(&udp), None);
        }
        let mut arp = frame(false, 1, SYN_ACK);
        arp[13] = 6;
        assert_eq!(parse(&arp), None);
    }

    #[test]
    fn segments_are_admitted_only_after_the_syn_ack_was_read() {
        for is_v6 in [false, true] {
            let mut unread = UnreadSynAcks::default();
            let syn_ack = frame(is_v6, 1, SYN_ACK);
            assert!(unread.admit(&frame(is_v6, 1, RST), 50, || unreachable!()));
            assert!(unread.admit(&syn_ack, 100, || unreachable!()));
            // Other connections are not concerned.
            assert!(unread.admit(&frame(is_v6, 2, SYN_ACK), 200, || unreachable!()));
            assert!(unread.admit(&frame(!is_v6, 1, SYN_ACK), 300, || unreachable!()));
            assert!(unread.admit(&frame(is_v6, 3, RST), 400, || unreachable!()));
            for flags in [SYN_ACK, RST, RST | ACK, ACK | 1] {
                assert!(!unread.admit(&frame(is_v6, 1, flags), 500, || 99));
            }
            // More is unread, but all behind the first SYN-ACK.
            assert!(unread.admit(&syn_ack, 500, || 100));
            assert!(!unread.admit(&syn_ack, 600, || 499));
            assert!(unread.admit(&frame(is_v6, 1, RST), 600, || 500));
            assert!(unread.0.is_empty());
        }
    }

    #[test]
    fn reset_is_admitted_after_the_acknowledgment_though_the_stream_is_full() {
        for is_v6 in [false, true] {
            let mut unread = UnreadSynAcks::default();
            unread.receive(&reversed(is_v6, 1, ACK));
            assert!(unread.admit(&frame(is_v6, 1, SYN_ACK), 100, || unreachable!()));
            // Of another connection, the other protocol, in the wrong direction, and what a client that gives up causes.
            let client =
                [(false, 1, RST), (false, 1, RST | ACK), (false, 1, SYN), (false, 2, ACK), (true, 1, ACK)];
            let client = client.map(|(is_other, port, flags)| reversed(is_v6 != is_other, port, flags));
            for frame in client.iter().chain([&frame(is_v6, 1, ACK)]) {
                unread.receive(frame);
            }
            assert!(!unread.admit(&frame(is_v6, 1, RST), 200, || 0));
            unread.receive(&reversed(is_v6, 1, ACK));
            assert!(unread.admit(&frame(is_v6, 1, RST), 200, || unreachable!()));
        }
    }

    #[test]
    fn memory_is_bounded() {
        let mut unread = UnreadSynAcks::default();
        for port in 0..2 * MAX_UNREAD {
            let syn_ack = frame(false, u16::try_from(port).unwrap(), SYN_ACK);
            assert_eq!(unread.admit(&syn_ack, port as u64, || 0), port <= MAX_UNREAD);
        }
        assert_eq!(unread.0.len(), MAX_UNREAD);
        assert!(unread.admit(&frame(false, u16::MAX, ACK), 0, || unreachable!()));
        assert!(unread.admit(&frame(false, u16::MAX, SYN_ACK), u64::MAX, || 9));
        assert_eq!(unread.0.len(), MAX_UNREAD - 8);
    }

    #[test]
    fn bytes_read_are_never_overestimated() {
        const FRAME: usize = 60_000;
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut ours = File::from(OwnedFd::from(ours));
        let (mut written, mut taken) = (0, 0);
        for round in 0..20 {
            ours.write_all(&[1; FRAME]).unwrap();
            written += FRAME as u64;
            assert!(read(&ours, written) <= taken, "{round}");
            // Half a frame is always unread.
            let size = if round == 0 { FRAME / 2 } else { FRAME };
            theirs.read_exact(&mut vec![0; size]).unwrap();
            taken += size as u64;
            assert!(read(&ours, written) <= taken, "{round}");
        }
        assert!(read(&ours, written) > 0);
        theirs.read_exact(&mut [0; FRAME / 2]).unwrap();
        assert_eq!(read(&ours, written), written);
        assert_eq!(read(&tempfile::tempfile().unwrap(), 1), 0);
    }

    proptest! {
        #[test]
        fn random_frames_never_panic(is_v6: bool, bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut whole = frame(is_v6, 1, SYN_ACK);
            parse(&bytes);
            whole.truncate(14);
            parse(&[whole, bytes].concat());
        }
    }
}
