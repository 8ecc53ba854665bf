//! Fuzz target of the egress policy: a filter, and a judge that is written in another way, agree about every
//! frame.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use super::ByteSource;
use crate::devices::net::egress::EgressFilter;
use hermit_options::egress::{EgressOptions, EgressPolicy, HostNetwork, Prefix};

/// Ranges that are closed unless the operator opens them.
const CLOSED: [&str; 8] = [
    "169.254.0.0/16",
    "224.0.0.0/24",
    "fe80::/10",
    "ff01::/16",
    "ff02::/16",
    "0.0.0.0/8",
    "127.0.0.0/8",
    "::/96",
];

/// The guest's DNS server, and an address of the host.
const NAMESERVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 53);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// `data` is a policy, and frames that the guest sends or receives.
///
/// # Panics
///
/// The filter and the judge disagree.
pub fn egress(data: &[u8]) {
    let (mut source, now) = (ByteSource(data), Instant::now());
    let Some((options, judge)) = policy(&mut source) else { return };
    let host = HostNetwork { addresses: vec![HOST.into()], nameservers: vec![NAMESERVER.into()] };
    let mut filter = EgressFilter::new(EgressPolicy::of_sockets(&options, &host));
    let mut judge = Judge { rules: judge, received: Vec::new() };
    while let Some((is_sent, frame)) = frame(&mut source) {
        if is_sent {
            let is_admitted = filter.admit(&frame, || now).is_some();
            assert_eq!(is_admitted, judge.admits(&frame).is_some(), "{frame:x?}");
        } else {
            filter.note(&frame, || now);
            judge.received.extend(ip(&frame).and_then(datagram));
        }
    }
}

/// Rules: ranges, and whether they are open, in the order in which later ones replace earlier ones.
type Rules = Vec<(Prefix, bool)>;

fn policy(source: &mut ByteSource<'_>) -> Option<(EgressOptions, Rules)> {
    let [flags] = source.take()?;
    let mut options = EgressOptions::default();
    let is_closed = flags & 1 != 0;
    if is_closed {
        options.close().ok()?;
    }
    let mut rules = vec![("0.0.0.0/0".parse().ok()?, !is_closed), ("::/0".parse().ok()?, !is_closed)];
    rules.extend(CLOSED.iter().filter_map(|text| Some((text.parse().ok()?, false))));
    rules.push((Prefix::of_host(HOST.into()), false));
    for _ in 0..flags >> 1 & 7 {
        let [kind, length] = source.take()?;
        let address: IpAddr = if kind & 1 == 0 {
            Ipv4Addr::from(source.take::<4>()?).into()
        } else {
            Ipv6Addr::from(source.take::<16>()?).into()
        };
        let (range, is_open) = (Prefix::new(address, length), kind & 2 == 0);
        let added = if is_open { options.allow(range) } else { options.deny(range) };
        rules.extend(added.is_ok().then_some((range, is_open)));
    }
    Some((options, rules))
}

/// The next frame, and whether the guest sends it. Most have a header of IP, so that more than one in many is
/// parsed.
fn frame(source: &mut ByteSource<'_>) -> Option<(bool, Vec<u8>)> {
    let [kind, length] = source.take()?;
    let bytes = source.up_to(length.into());
    let front: &[u8] = match kind >> 1 & 3 {
        0 | 1 => &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0x45],
        2 => &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x86, 0xdd, 0x60],
        _ => &[],
    };
    Some((kind & 1 == 0, [front, bytes].concat()))
}

/// A packet: source, destination, protocol, and payload; the protocol is `None` for a fragment.
type Packet<'a> = (IpAddr, IpAddr, Option<u8>, &'a [u8]);

/// Source and destination of a datagram, with ports.
type Datagram = ((IpAddr, u16), (IpAddr, u16));

struct Judge {
    rules: Rules,
    received: Vec<Datagram>,
}

impl Judge {
    /// `Some` if a frame may leave.
    fn admits(&self, frame: &[u8]) -> Option<()> {
        if frame.get(12..14)? == [8, 6] {
            return Some(());
        }
        let packet = ip(frame)?;
        let (_, destination, protocol, payload) = packet;
        let is_complete = match protocol {
            Some(6) => payload.len() >= 14,
            Some(17) => payload.len() >= 4,
            Some(1) if destination.is_ipv4() => !payload.is_empty(),
            Some(58) if destination.is_ipv6() => !payload.is_empty(),
            _ => true,
        };
        (is_complete && (self.permits(destination) || self.opens_nothing(packet))).then_some(())
    }

    /// Returns true if an address is open in each of its forms.
    fn permits(&self, address: IpAddr) -> bool {
        let inner = match address {
            IpAddr::V4(_) => None,
            IpAddr::V6(address) => {
                let text = format!("{:0>32x}", address.to_bits());
                let digits =
                    text.strip_prefix("0064ff9b0000000000000000").or_else(|| text.strip_prefix("2002"));
                digits.and_then(|digits| u32::from_str_radix(digits.get(..8)?, 16).ok())
            }
        };
        let inner = inner.map(|bits| IpAddr::from(Ipv4Addr::from_bits(bits)));
        [Some(address), inner].into_iter().flatten().all(|address| {
            let address = Prefix::of_host(address.to_canonical());
            let matching = self.rules.iter().filter(|(range, _)| address.is_within(*range));
            let smaller = |best: Option<(Prefix, bool)>, &rule: &(Prefix, bool)| match best {
                Some((range, _)) if !rule.0.is_within(range) => best,
                _ => Some(rule),
            };
            matching.fold(None, smaller).is_some_and(|(_, is_open)| is_open)
        })
    }

    fn opens_nothing(&self, packet: Packet<'_>) -> bool {
        let (source, destination, protocol, payload) = packet;
        let kind = payload.first().copied().unwrap_or_default();
        match (protocol, destination) {
            (Some(6), _) => {
                let is_first_syn = payload.get(13).is_some_and(|flags| flags & 0x12 == 2);
                let is_dns = payload.get(2..4) == Some(&[0, 53]);
                !is_first_syn || is_dns && destination.to_canonical() == NAMESERVER
            }
            (Some(17), _) => {
                let Some(((_, from), (_, to))) = datagram(packet) else { return false };
                let is_answer = |&((peer, peer_port), (_, guest_port)): &Datagram| {
                    (peer, peer_port, guest_port) == (destination, to, from)
                };
                let is_dhcp = match destination {
                    IpAddr::V4(address) => address == Ipv4Addr::BROADCAST && (from, to) == (68, 67),
                    IpAddr::V6(address) => address.to_string() == "ff02::1:2" && (from, to) == (546, 547),
                };
                let is_dns = to == 53 && destination.to_canonical() == NAMESERVER;
                is_dhcp || is_dns || self.received.iter().any(is_answer)
            }
            (Some(1), IpAddr::V4(_)) => [0, 3, 11, 12].contains(&kind),
            (Some(58), IpAddr::V6(_)) => {
                debug_assert!(source.is_ipv6());
                matches!(kind, 1..=4 | 129 | 131..=133 | 135 | 136 | 143)
            }
            _ => false,
        }
    }
}

/// The addresses and ports of a datagram.
fn datagram((source, destination, protocol, payload): Packet<'_>) -> Option<Datagram> {
    match (protocol, payload) {
        (Some(17), &[a, b, c, d, ..]) => {
            Some(((source, u16::from_be_bytes([a, b])), (destination, u16::from_be_bytes([c, d]))))
        }
        _ => None,
    }
}

/// The packet in a frame, if it is one without options and source route.
fn ip(frame: &[u8]) -> Option<Packet<'_>> {
    let packet = frame.get(14..)?;
    match (frame.get(12..14)?, *packet.first()?) {
        ([8, 0], 0x45) => {
            let (header, payload) = packet.split_first_chunk::<20>()?;
            let [_, _, _, _, _, _, flags, offset, _, protocol, _, _, rest @ ..] = *header;
            let [a, b, c, d, e, f, g, h] = rest;
            let is_fragment = flags & 0x3f != 0 || offset != 0;
            let addresses = (Ipv4Addr::new(a, b, c, d).into(), Ipv4Addr::new(e, f, g, h).into());
            Some((addresses.0, addresses.1, (!is_fragment).then_some(protocol), payload))
        }
        ([0x86, 0xdd], 0x60..=0x6f) => {
            let (header, payload) = packet.split_first_chunk::<40>()?;
            let (addresses, _) = header.get(8..)?.as_chunks::<16>();
            let [source, destination] = *addresses else { return None };
            let (protocol, payload) = upper_layer(*header.get(6)?, payload, 8)?;
            Some((source.into(), destination.into(), protocol, payload))
        }
        _ => None,
    }
}

/// The upper layer after at most `left` extension headers.
fn upper_layer(next: u8, payload: &[u8], left: u8) -> Option<(Option<u8>, &[u8])> {
    let is_extension = matches!(next, 0 | 43 | 44 | 60);
    if !is_extension {
        return Some((Some(next), payload));
    }
    let &[following, units, high, low, ..] = payload else { return None };
    let size = match next {
        44 if high != 0 || low & !6 != 0 => return Some((None, payload)),
        43 if low != 0 => return None,
        44 => 8,
        _ => 8 + 8 * usize::from(units),
    };
    upper_layer(following, payload.get(size..)?, left.checked_sub(1)?)
}

#[cfg(test)]
mod tests {
    use super::egress;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// Bytes of addresses and protocols that are likely to matter.
    fn byte() -> impl Strategy<Value = u8> {
        let likely = [0, 1, 2, 6, 8, 10, 16, 17, 43, 44, 53, 58, 60, 68, 127, 129, 169, 224, 254, 255];
        prop_oneof![3 => proptest::sample::select(likely.to_vec()), 1 => any::<u8>()]
    }

    proptest! {
        #[test]
        fn filter_agrees_with_the_judge(policy in vec(byte(), 0..40), frames in vec((0_u8..8, vec(byte(), 0..100)), 1..20)) {
            let frames = frames.into_iter().flat_map(|(kind, frame)| {
                [&[kind, u8::try_from(frame.len()).unwrap()][..], &frame].concat()
            });
            egress(&policy.into_iter().chain(frames).collect::<Vec<u8>>());
        }
    }
}
