//! Filter of router advertisements for smoltcp, which panics at prefixes that are unusable for SLAAC.
//!
//! smoltcp itself verifies that advertisements come from the link: their source is link-local, and their hop
//! limit is 255 (RFC 4861, section 6.1.2).

use alloc::borrow::Cow;
use core::net::{IpAddr, Ipv6Addr};
use core::ops::Range;

use hermit_base::try_alloc::try_to_vec;
use smoltcp::wire::{Icmpv6Packet, IpProtocol};

use crate::wire::emit::ETHERNET;
use crate::wire::packet::{Frame, Packet};

/// ICMP type of an advertisement, and size in bytes of the message before its options (RFC 4861, section
/// 4.2).
const ADVERTISEMENT: u8 = 134;
const HEADER: usize = 16;

/// Prefix information option: its type, its size in units of 8 bytes, and its flag A for SLAAC (RFC 4861,
/// section 4.6.2).
const PREFIX: u8 = 3;
const PREFIX_UNITS: u8 = 4;
const AUTONOMOUS: u8 = 0x40;

/// A reserved option type, which receivers ignore.
const NOTHING: u8 = 0;

/// Prefix length for SLAAC on Ethernet: the rest is the interface identifier (RFC 2464, section 4).
const LENGTH: u8 = 64;

/// Returns the filtered frame; `None` if it must be dropped. Unusable prefixes are removed from an
/// advertisement (RFC 4862, section 5.5.3). smoltcp uses only the last prefix, so an unusable one would also
/// hide a usable one.
pub(super) fn filtered(frame: &[u8]) -> Option<Cow<'_, [u8]>> {
    let Some((message, source, destination)) = advertisement(frame) else {
        return Some(Cow::Borrowed(frame));
    };
    let options = Options { bytes: frame.get(..message.end)?, place: message.start + HEADER };
    if options.clone().all(|(_, option)| !is_unusable(option)) {
        return Some(Cow::Borrowed(frame));
    }
    // The removal recomputes the checksum, which must not hide that a message is corrupted. Corrupted
    // messages are therefore dropped first.
    if !Icmpv6Packet::new_checked(frame.get(message.clone())?).ok()?.verify_checksum(&source, &destination) {
        return None;
    }
    let mut other = try_to_vec(frame).ok()?;
    for (place, _) in options.filter(|(_, option)| is_unusable(option)) {
        *other.get_mut(place)? = NOTHING;
    }
    Icmpv6Packet::new_checked(other.get_mut(message)?).ok()?.fill_checksum(&source, &destination);
    Some(Cow::Owned(other))
}

/// Returns the range of the message in a frame with an advertisement, and its source and destination.
fn advertisement(frame: &[u8]) -> Option<(Range<usize>, Ipv6Addr, Ipv6Addr)> {
    let packet = Packet::parse(Frame::parse(frame)?.payload)?;
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (packet.source, packet.destination) else {
        return None;
    };
    let is_one = packet.protocol == IpProtocol::Icmpv6 && packet.payload.first() == Some(&ADVERTISEMENT);
    let end = ETHERNET + packet.bytes.len();
    is_one.then(|| (end - packet.payload.len()..end, source, destination))
}

/// Iterates over the options of a message and their offsets, until an invalid one, as smoltcp does.
#[derive(Clone)]
struct Options<'a> {
    bytes: &'a [u8],
    place: usize,
}

impl<'a> Iterator for Options<'a> {
    type Item = (usize, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let place = self.place;
        let size = usize::from(*self.bytes.get(place + 1)?) * 8;
        let option = self.bytes.get(place..place + size).filter(|option| !option.is_empty())?;
        self.place += size;
        Some((place, option))
    }
}

/// True if an option is a prefix that is unusable or not meant for SLAAC.
fn is_unusable(option: &[u8]) -> bool {
    let &[PREFIX, PREFIX_UNITS, length, flags, ..] = option else { return false };
    let Some(&prefix) = option.get(16..).and_then(<[u8]>::first_chunk::<8>) else { return false };
    let first = u16::from_be_bytes([prefix[0], prefix[1]]);
    let is_unicast = prefix != [0; 8] && first < 0xff00 && first & 0xffc0 != 0xfe80;
    length != LENGTH || flags & AUTONOMOUS == 0 || !is_unicast
}
