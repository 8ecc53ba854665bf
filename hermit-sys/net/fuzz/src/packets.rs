//! Packets with correct lengths and checksums, and other contents from the script.
//!
//! A fuzzer hardly finds packets that pass the checks of lengths and checksums by itself. This module builds
//! them from a few bytes of the script: ARP, ICMP, UDP and TCP over both IP versions, with IPv6 extension
//! headers, and as fragments that may overlap or be missing.

use crate::Script;
use crate::unconfigured::checksum;

/// Protocol numbers.
const HOP_BY_HOP: u8 = 0;
const ICMP: u8 = 1;
const IGMP: u8 = 2;
const TCP: u8 = 6;
const UDP: u8 = 17;
const FRAGMENT: u8 = 44;
const ICMPV6: u8 = 58;
const DESTINATION_OPTIONS: u8 = 60;

/// Types of messages of ICMP and `ICMPv6`: echo, errors, MLD, neighbor discovery.
const ICMP_TYPES: [u8; 6] = [0, 3, 8, 11, 12, 5];
const ICMPV6_TYPES: [u8; 13] = [1, 2, 3, 4, 128, 129, 130, 131, 133, 134, 135, 136, 137];

/// Source and destination of a packet, of 4 or 16 bytes each.
struct Ends {
    source: Vec<u8>,
    destination: Vec<u8>,
}

impl Ends {
    /// Returns the addresses of a packet to the host with a number.
    fn new(script: &mut Script<'_>, number: u8, is_v4: bool) -> Self {
        let [from, to] = [script.byte(), script.byte()];
        let few = from % 8 + 4;
        let (source, destination) = if is_v4 {
            let source = match from {
                0..=159 => vec![10, 0, 0, few],
                160..=175 => vec![0; 4],
                176..=191 => vec![224, 0, 0, 1],
                192..=207 => vec![172, 16, 0, few],
                _ => padded(script, 4),
            };
            let destinations = [[10, 0, 0, number], [10, 0, 0, 255], [255; 4], [224, 0, 0, 1]];
            (source, destinations[usize::from(to / 32 % 4)].to_vec())
        } else {
            let last = |high: u8, low: u8, last: u8| [&[high, low][..], &[0; 13], &[last]].concat();
            let source = match from {
                0..=95 => last(0xfd, 0, few),
                96..=191 => last(0xfe, 0x80, few),
                192..=199 => vec![0; 16],
                200..=207 => last(0xff, 2, 1),
                _ => padded(script, 16),
            };
            let mut own = last(0xfe, 0x80, number);
            own[11..13].copy_from_slice(&[0xff, 0xfe]);
            let mut solicited = last(0xff, 2, number);
            (solicited[11], solicited[12]) = (1, 0xff);
            let destinations = [last(0xfd, 0, number), own, last(0xff, 2, 1), solicited];
            (source, destinations[usize::from(to / 32 % 4)].clone())
        };
        Self { source, destination }
    }

    fn is_v4(&self) -> bool {
        self.source.len() == 4
    }

    /// Returns the checksum of a message, including the pseudo header.
    fn checksum(&self, protocol: u8, message: &[u8]) -> [u8; 2] {
        let size = u16::try_from(message.len()).unwrap_or(0).to_be_bytes();
        checksum(&[&self.source, &self.destination, &size, &[0, protocol], message])
    }
}

/// Returns `size` bytes of the script, or zeros after its end.
fn padded(script: &mut Script<'_>, size: usize) -> Vec<u8> {
    let mut bytes = script.bytes(size).to_vec();
    bytes.resize(size, 0);
    bytes
}

/// Returns frames for the host with a number: an ARP packet, or an IP packet, whole or in fragments.
pub(crate) fn frames(script: &mut Script<'_>, number: u8) -> Vec<Vec<u8>> {
    let how = script.byte();
    if how >= 240 {
        return vec![arp(script, number)];
    }
    let ends = Ends::new(script, number, how.is_multiple_of(2));
    let (protocol, payload) = message(script, &ends);
    let link = script.byte();
    let packets = if how % 8 < 4 {
        vec![whole(script, &ends, protocol, payload)]
    } else {
        fragments(script, &ends, protocol, &payload)
    };
    packets.into_iter().map(|packet| frame(link, number, &ends, &packet)).collect()
}

fn frame(link: u8, number: u8, ends: &Ends, packet: &[u8]) -> Vec<u8> {
    let group = [0x33, 0x33, 0, 0, 0, 1];
    let destination = match link {
        0..=191 => [2, 0, 0, 0, 0, number],
        192..=223 => [255; 6],
        _ => group,
    };
    let kind = if ends.is_v4() { [8, 0] } else { [0x86, 0xdd] };
    [&destination[..], &[2, 0, 0, 0, 0, link % 16 + 4], &kind, packet].concat()
}

/// An ARP packet (RFC 826).
fn arp(script: &mut Script<'_>, number: u8) -> Vec<u8> {
    let (operation, few) = (script.byte() % 3, script.byte());
    let target = if few >= 240 { padded(script, 4) } else { vec![10, 0, 0, number] };
    let mac = [2, 0, 0, 0, 0, few % 16 + 4];
    let head = [&[2, 0, 0, 0, 0, number][..], &mac, &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation], &mac];
    [&head.concat()[..], &[10, 0, 0, few % 16 + 4], &[2, 0, 0, 0, 0, number], &target].concat()
}

/// A message of a protocol above IP.
fn message(script: &mut Script<'_>, ends: &Ends) -> (u8, Vec<u8>) {
    match script.byte() {
        0..=63 => (UDP, datagram(script, ends)),
        64..=95 => (TCP, segment(script, ends)),
        96..=223 if ends.is_v4() => {
            let kind = ICMP_TYPES[usize::from(script.byte()) % ICMP_TYPES.len()];
            let mut message = [&[kind, script.byte(), 0, 0][..], &padded(script, 4)].concat();
            message.extend(quoted(script, ends));
            fill(&mut message, checksum);
            (ICMP, message)
        }
        96..=223 => (ICMPV6, icmpv6(script, ends)),
        224..=239 => {
            let kind = [0x11, 0x12, 0x16, 0x17, 0x22][usize::from(script.byte() % 5)];
            let mut message = [&[kind, script.byte(), 0, 0][..], &padded(script, 4)].concat();
            fill(&mut message, checksum);
            (IGMP, message)
        }
        _ => (script.byte(), padded(script, 16)),
    }
}

/// Fills in the checksum of a message of ICMP or IGMP.
fn fill(message: &mut [u8], sum: impl FnOnce(&[&[u8]]) -> [u8; 2]) {
    let sum = sum(&[message]);
    message[2..4].copy_from_slice(&sum);
}

fn datagram(script: &mut Script<'_>, ends: &Ends) -> Vec<u8> {
    let ports = script.byte();
    let from = [7, 53, 67, 9][usize::from(ports % 4)];
    let to = [7, 53, 68, 80][usize::from(ports / 4 % 4)];
    let count = usize::from(script.byte());
    let size = u16::try_from(8 + count).unwrap_or(0).to_be_bytes();
    let mut datagram = [&[0, from, 0, to][..], &size, &[0, 0], &padded(script, count)].concat();
    let sum = ends.checksum(UDP, &datagram);
    datagram[6..8].copy_from_slice(&sum);
    datagram
}

fn segment(script: &mut Script<'_>, ends: &Ends) -> Vec<u8> {
    let (port, flags) = (script.byte() % 8 + 1, script.byte());
    let options = usize::from(script.byte() % 11) * 4;
    let words = u8::try_from(5 + options / 4).unwrap_or(5);
    let mut segment =
        [&[0, port, 0, 80][..], &padded(script, 8), &[words << 4, flags, 16, 0, 0, 0, 0, 0]].concat();
    segment.extend(padded(script, options));
    let count = usize::from(script.byte() % 64);
    segment.extend(padded(script, count));
    let sum = ends.checksum(TCP, &segment);
    segment[16..18].copy_from_slice(&sum);
    segment
}

/// Returns an `ICMPv6` message. Messages of neighbor discovery have options.
fn icmpv6(script: &mut Script<'_>, ends: &Ends) -> Vec<u8> {
    let choice = script.byte();
    let kind = ICMPV6_TYPES.get(usize::from(choice % 16)).copied().unwrap_or(choice);
    let mut message = vec![kind, script.byte() % 8, 0, 0];
    message.extend(padded(script, 4));
    match kind {
        134 => message.extend([0; 8]),
        135..=137 if script.byte().is_multiple_of(4) => message.extend(padded(script, 16)),
        135..=137 => message.extend(&ends.source),
        130 | 131 => message.extend(padded(script, 20)),
        _ => message.extend(quoted(script, ends)),
    }
    if (133..=137).contains(&kind) {
        for _ in 0..script.byte() % 4 {
            let (kind, units) = (script.byte() % 8, script.byte() % 6);
            message.extend([kind, units]);
            message.extend(padded(script, (usize::from(units) * 8).saturating_sub(2)));
        }
    }
    let sum = ends.checksum(ICMPV6, &message);
    message[2..4].copy_from_slice(&sum);
    message
}

/// Returns the start of a packet that the host may have sent. An ICMP error quotes it.
fn quoted(script: &mut Script<'_>, ends: &Ends) -> Vec<u8> {
    let protocol = [UDP, TCP, ICMP, FRAGMENT][usize::from(script.byte() % 4)];
    let head = if ends.is_v4() {
        [&[0x45, 0, 0, 60, 0, 0, 0, 0, 64, protocol, 0, 0][..], &ends.destination, &ends.source].concat()
    } else {
        [&[0x60, 0, 0, 0, 0, 60, protocol, 64][..], &ends.destination, &ends.source].concat()
    };
    let size = usize::from(script.byte() % 64);
    let mut quoted = [head, vec![0, 80, 0, 1], padded(script, 16)].concat();
    quoted.truncate(size.max(20));
    quoted
}

/// Returns a packet, with extension headers in IPv6.
fn whole(script: &mut Script<'_>, ends: &Ends, protocol: u8, payload: Vec<u8>) -> Vec<u8> {
    if ends.is_v4() {
        return v4(script, ends, protocol, &payload, 0);
    }
    let (mut next, mut rest) = (protocol, payload);
    for _ in 0..script.byte() % 4 {
        (next, rest) = extended(script, next, rest);
    }
    v6(script, ends, next, &rest)
}

/// Puts an extension header before the payload `rest` of the protocol `next`. Returns its protocol and the
/// bytes.
fn extended(script: &mut Script<'_>, next: u8, rest: Vec<u8>) -> (u8, Vec<u8>) {
    let kind = script.byte();
    match kind % 4 {
        0 => {
            let units = kind >> 4 & 3;
            let options = padded(script, usize::from(units) * 8 + 6);
            (HOP_BY_HOP, [&[next, units][..], &options, &rest].concat())
        }
        1 => (DESTINATION_OPTIONS, [&[next, 0, 1, 4, 0, 0, 0, 0][..], &rest].concat()),
        2 => {
            let head = [next, 0, 0, kind >> 2 & 1, 0, 0, 0, kind >> 4];
            (FRAGMENT, [&head[..], &rest].concat())
        }
        // As many nested fragment headers as fit.
        _ => {
            let nested = [FRAGMENT, 0, 0, 0, 0, 0, 0, 1].repeat(usize::from(script.byte()));
            (FRAGMENT, [&nested[..], &[next, 0, 0, 0, 0, 0, 0, 1], &rest].concat())
        }
    }
}

/// Returns the fragments of a packet, in any order. Some may be missing, duplicated, or overlapping.
fn fragments(script: &mut Script<'_>, ends: &Ends, protocol: u8, payload: &[u8]) -> Vec<Vec<u8>> {
    let (step, identification) = (usize::from(script.byte() % 8 + 1) * 8, script.byte() % 4);
    let count = payload.len().div_ceil(step);
    let mut packets = Vec::new();
    for place in 0..count.min(64) {
        let choice = script.byte();
        let place = if choice >= 224 { usize::from(choice) % count } else { place };
        let start = if choice == 223 { place * 8 } else { place * step };
        let is_last = start + step >= payload.len();
        let part = &payload[start.min(payload.len())..payload.len().min(start + step)];
        let offset = u16::try_from(start).unwrap_or(0);
        packets.push(if ends.is_v4() {
            let field = (offset / 8) | if is_last { 0 } else { 0x2000 };
            v4(script, ends, protocol, part, u32::from(identification) << 16 | u32::from(field))
        } else {
            let [high, low] = (offset & !7 | u16::from(!is_last)).to_be_bytes();
            let head = [protocol, 0, high, low, 0, 0, 0, identification];
            v6(script, ends, FRAGMENT, &[&head[..], part].concat())
        });
        if choice.is_multiple_of(16) {
            packets.extend(packets.last().cloned());
        }
    }
    packets
}

/// A packet of IPv4; `fragment` has the fields for identification, flags and offset.
fn v4(script: &mut Script<'_>, ends: &Ends, protocol: u8, payload: &[u8], fragment: u32) -> Vec<u8> {
    let (class, words) = (script.byte(), if script.byte() < 240 { 5 } else { 7 });
    let size = u16::try_from(usize::from(words) * 4 + payload.len()).unwrap_or(0).to_be_bytes();
    let mut head = vec![0x40 | words, class];
    head.extend(size);
    head.extend(fragment.to_be_bytes());
    head.extend([if class < 128 { 64 } else { 1 }, protocol, 0, 0]);
    head.extend(&ends.source);
    head.extend(&ends.destination);
    // No operation.
    head.resize(usize::from(words) * 4, 1);
    let sum = checksum(&[&head]);
    head[10..12].copy_from_slice(&sum);
    [&head[..], payload].concat()
}

/// A packet of IPv6.
fn v6(script: &mut Script<'_>, ends: &Ends, next: u8, payload: &[u8]) -> Vec<u8> {
    let choice = script.byte();
    let size = u16::try_from(payload.len()).unwrap_or(0).to_be_bytes();
    let hop_limit = match choice {
        0..=159 => 255,
        160..=207 => 1,
        _ => 64,
    };
    let head = [&[0x60 | choice >> 4, choice << 4, 0, 0][..], &size, &[next, hop_limit]].concat();
    [&head[..], &ends.source, &ends.destination, payload].concat()
}
