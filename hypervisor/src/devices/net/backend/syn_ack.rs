//! What passt must not read together with a SYN-ACK: its repetition, and the reset of its connection.
//!
//! A guest repeats a SYN-ACK that has not been acknowledged after a second (RFC 6298 §2), or resets the connection. If passt has
//! not run for so long, it reads both in one batch. Version 2023-03 counts the packets of a batch with a SYN-ACK wrongly, and
//! loops for ever. So until passt has read a SYN-ACK, the next segment of its connection is dropped. The guest repeats it: a
//! SYN-ACK when it is not acknowledged, a reset when the next segment of the connection arrives.
//!
//! This is for guests that keep to the protocols. With other frames, such as SYN-ACKs behind extension headers of IPv6, a guest
//! harms its own network only.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::raw::c_int;

use rustix::ioctl::{Getter, Opcode, ioctl};

/// Request of ioctl(2): the memory that unread bytes of a socket take at its peer (unix(7), linux/sockios.h). It does not encode
/// a type and a size.
pub(crate) const SIOCOUTQ: Opcode = 0x5411;

/// Maximum number of SYN-ACKs that are remembered. Further ones are dropped while they are unread: guests repeat them.
const MAX_UNREAD: usize = 8192;

/// Offset in bytes of the EtherType, and of fields of IPv4 and IPv6 headers behind it.
const ETHER_TYPE: usize = 12;
const IP: usize = 14;
const PROTOCOL_V4: usize = IP + 9;
const ADDRESSES_V4: usize = IP + 12;
const PROTOCOL_V6: usize = IP + 6;
const ADDRESSES_V6: usize = IP + 8;

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

/// Addresses and ports of a connection, in the order of the headers. Addresses of IPv4 are filled up with zeros.
type Connection = ([u8; BOTH_V6], [u8; 4]);

/// Connections with a SYN-ACK that passt may not have read.
#[derive(Debug, Default)]
pub(super) struct UnreadSynAcks(HashSet<Connection>);

impl UnreadSynAcks {
    /// Whether `frame` is to be written. `is_read` returns whether passt has read all frames that were written.
    pub(super) fn admit(&mut self, frame: &[u8], is_read: impl FnOnce() -> bool) -> bool {
        let Some((segment, connection)) = parse(frame) else { return true };
        if segment == Segment::Other {
            if !self.0.is_empty() {
                // The guest has received the acknowledgment: passt has read the SYN-ACK.
                self.0.remove(&connection);
            }
            return true;
        }
        if !self.0.is_empty() && is_read() {
            self.0.clear();
        }
        match segment {
            Segment::SynAck => self.0.len() < MAX_UNREAD && self.0.insert(connection),
            _ => !self.0.contains(&connection),
        }
    }
}

/// Whether the peer of a UNIX socket has read all that was written.
pub(super) fn is_read(socket: &File) -> bool {
    unread(socket).is_ok_and(|size| size == 0)
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
    Reset,
    /// What follows a handshake, or begins one.
    Other,
}

/// The segment in a frame, and its connection; `None` if there is none.
fn parse(frame: &[u8]) -> Option<(Segment, Connection)> {
    let (addresses, segment) = match frame.get(ETHER_TYPE..IP)? {
        [0x08, 0x00] if *frame.get(PROTOCOL_V4)? == TCP => {
            let header_size = usize::from(frame.get(IP)? & 0xf) * 4;
            (frame.get(ADDRESSES_V4..ADDRESSES_V4 + BOTH_V4)?, frame.get(IP + header_size..)?)
        }
        [0x86, 0xdd] if *frame.get(PROTOCOL_V6)? == TCP => {
            frame.get(ADDRESSES_V6..)?.split_at_checked(BOTH_V6)?
        }
        _ => return None,
    };
    let kind = match segment.get(FLAGS)? & (SYN | RST | ACK) {
        flags if flags & RST != 0 => Segment::Reset,
        flags if flags == SYN | ACK => Segment::SynAck,
        _ => Segment::Other,
    };
    let mut padded = [0; BOTH_V6];
    padded.get_mut(..addresses.len())?.copy_from_slice(addresses);
    Some((kind, (padded, *segment.first_chunk()?)))
}

#[cfg(test)]
mod tests {
    use super::{ACK, MAX_UNREAD, RST, SYN, Segment, UnreadSynAcks, is_read, parse};
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

    #[test]
    fn segments_are_recognised_by_their_flags() {
        for (is_v6, begin) in [(false, [1, 1, 1, 1, 2]), (true, [1; 5])] {
            let kind = |flags| parse(&frame(is_v6, 1, flags)).unwrap().0;
            assert!([0, SYN, ACK, ACK | 1, 0x29].iter().all(|&flags| kind(flags) == Segment::Other));
            assert!([RST, RST | ACK, RST | ACK | SYN].iter().all(|&flags| kind(flags) == Segment::Reset));
            // ECE (RFC 3168 §6.1.1).
            assert!([SYN | ACK, SYN | ACK | 0x40].iter().all(|&flags| kind(flags) == Segment::SynAck));
            let (_, (addresses, ports)) = parse(&frame(is_v6, 0x0102, SYN | ACK)).unwrap();
            assert_eq!((&addresses[..5], ports), (&begin[..], [0x1f, 0x90, 1, 2]));
        }
    }

    #[test]
    fn truncated_and_other_frames_are_none() {
        for is_v6 in [false, true] {
            let whole = frame(is_v6, 1, SYN | ACK);
            let flags = whole.len() - 7;
            assert!((0..=flags).all(|length| parse(&whole[..length]).is_none()));
            assert!(parse(&whole[..=flags]).is_some());
            let protocol = if is_v6 { 20 } else { 23 };
            let mut udp = whole.clone();
            udp[protocol] = 17;
            assert_eq!(parse(&udp), None);
        }
        let mut arp = frame(false, 1, SYN | ACK);
        arp[13] = 6;
        assert_eq!(parse(&arp), None);
    }

    #[test]
    fn repetition_is_admitted_only_after_the_first_was_read() {
        for is_v6 in [false, true] {
            let mut unread = UnreadSynAcks::default();
            let first = frame(is_v6, 1, SYN | ACK);
            assert!(unread.admit(&first, || false));
            assert!(unread.admit(&frame(is_v6, 2, SYN | ACK), || false));
            assert!(unread.admit(&frame(!is_v6, 1, SYN | ACK), || false));
            assert!(!unread.admit(&first, || false));
            assert!(unread.admit(&first, || true));
            assert!(!unread.admit(&first, || false));
        }
    }

    #[test]
    fn reset_is_admitted_after_the_syn_ack_was_read_or_acknowledged() {
        let [syn_ack, reset, data] = [SYN | ACK, RST, ACK].map(|flags| frame(false, 1, flags));
        let mut unread = UnreadSynAcks::default();
        assert!(unread.admit(&reset, || unreachable!()));
        assert!(unread.admit(&syn_ack, || unreachable!()));
        assert!(!unread.admit(&reset, || false));
        assert!(unread.admit(&frame(false, 2, RST), || false));
        assert!(unread.admit(&reset, || true));
        assert!(unread.admit(&syn_ack, || unreachable!()));
        assert!(unread.admit(&data, || unreachable!()));
        assert!(unread.admit(&reset, || unreachable!()));
    }

    #[test]
    fn memory_is_bounded() {
        let mut unread = UnreadSynAcks::default();
        for port in 0..=u16::MAX {
            assert_eq!(
                unread.admit(&frame(false, port, SYN | ACK), || false),
                usize::from(port) < MAX_UNREAD
            );
        }
        assert_eq!(unread.0.len(), MAX_UNREAD);
        assert!(unread.admit(&frame(false, u16::MAX, SYN | ACK), || true));
        assert_eq!(unread.0.len(), 1);
    }

    #[test]
    fn socket_is_read_when_the_peer_has_read_the_last_byte() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut ours = File::from(OwnedFd::from(ours));
        assert!(is_read(&ours));
        ours.write_all(&[1; 100]).unwrap();
        assert!(!is_read(&ours));
        theirs.read_exact(&mut [0; 99]).unwrap();
        assert!(!is_read(&ours));
        theirs.read_exact(&mut [0]).unwrap();
        assert!(is_read(&ours));
        assert!(!is_read(&tempfile::tempfile().unwrap()));
    }

    proptest! {
        #[test]
        fn random_frames_never_panic(is_v6: bool, bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let mut whole = frame(is_v6, 1, SYN | ACK);
            parse(&bytes);
            whole.truncate(14);
            parse(&[whole, bytes].concat());
        }
    }
}
