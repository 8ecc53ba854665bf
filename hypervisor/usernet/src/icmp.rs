//! ICMP messages for the guest.

use std::net::IpAddr;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    Icmpv4DstUnreachable, Icmpv4Packet, Icmpv4Repr, Icmpv6DstUnreachable, Icmpv6Packet, Icmpv6Repr,
    IpProtocol,
};

use crate::config::Config;
use crate::emit;
use crate::host::Protocol;
use crate::parse::Ends;

/// Hop limit of messages.
const HOP_LIMIT: u8 = 64;

/// Number of bytes after the IP header that an error quotes at least (RFC 792): ports, and the number of a
/// segment.
const QUOTED: usize = 8;

/// Why a packet of the guest's did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    Network,
    Host,
    /// Nothing is bound to the port.
    Port,
    /// The network's owner has closed the address.
    Prohibited,
}

impl Unreachable {
    const fn v4(self) -> Icmpv4DstUnreachable {
        match self {
            Self::Network => Icmpv4DstUnreachable::NetUnreachable,
            Self::Host => Icmpv4DstUnreachable::HostUnreachable,
            Self::Port => Icmpv4DstUnreachable::PortUnreachable,
            Self::Prohibited => Icmpv4DstUnreachable::CommProhibited,
        }
    }

    const fn v6(self) -> Icmpv6DstUnreachable {
        match self {
            Self::Network => Icmpv6DstUnreachable::NoRoute,
            Self::Host => Icmpv6DstUnreachable::AddrUnreachable,
            Self::Port => Icmpv6DstUnreachable::PortUnreachable,
            Self::Prohibited => Icmpv6DstUnreachable::AdminProhibit,
        }
    }
}

/// The error about a packet of the guest's, from the gateway, or from the peer if its port is unreachable.
/// `start` are the first bytes of the packet's payload, whose length is `length`.
pub(crate) fn unreachable(
    config: &Config,
    reason: Unreachable,
    ends: Ends,
    protocol: IpProtocol,
    (start, length): (&[u8], usize),
) -> Option<Vec<u8>> {
    let (guest, peer) = (ends.guest.ip(), ends.peer.ip());
    let from = if reason == Unreachable::Port { peer } else { config.gateway(guest) };
    let data = start.get(..QUOTED.min(start.len()))?;
    match (guest, peer, from) {
        (IpAddr::V4(guest), IpAddr::V4(peer), _) => {
            let header = emit::quoted_v4((guest, peer), protocol, length);
            let repr = Icmpv4Repr::DstUnreachable { reason: reason.v4(), header, data };
            Some(message_v4(config, from, guest.into(), &repr))
        }
        (IpAddr::V6(guest), IpAddr::V6(peer), IpAddr::V6(_)) => {
            let header = emit::quoted_v6((guest, peer), protocol, length);
            let repr = Icmpv6Repr::DstUnreachable { reason: reason.v6(), header, data };
            message_v6(config, from, guest.into(), &repr, HOP_LIMIT)
        }
        _ => None,
    }
}

/// The error about a datagram of the guest's, or about an echo request, whose bytes are not known any more.
pub(crate) fn datagram_unreachable(
    config: &Config,
    reason: Unreachable,
    protocol: Protocol,
    ends: Ends,
) -> Option<Vec<u8>> {
    let [a, b] = ends.guest.port().to_be_bytes();
    let [c, d] = ends.peer.port().to_be_bytes();
    let (protocol, start) = match (protocol, ends.peer.is_ipv4()) {
        (Protocol::Echo, true) => (IpProtocol::Icmp, [8, 0, 0, 0, a, b, 0, 0]),
        (Protocol::Echo, false) => (IpProtocol::Icmpv6, [128, 0, 0, 0, a, b, 0, 0]),
        _ => (IpProtocol::Udp, [a, b, c, d, 0, 8, 0, 0]),
    };
    unreachable(config, reason, ends, protocol, (&start, start.len()))
}

/// Frame with an ICMP message for the guest.
pub(crate) fn message_v4(config: &Config, from: IpAddr, guest: IpAddr, repr: &Icmpv4Repr<'_>) -> Vec<u8> {
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes), &ChecksumCapabilities::default());
    emit::packet(config.guest_mac, (from, guest), IpProtocol::Icmp, HOP_LIMIT, &bytes)
}

/// Frame with an ICMPv6 message for the guest. `None` unless both addresses are IPv6.
pub(crate) fn message_v6(
    config: &Config,
    from: IpAddr,
    to: IpAddr,
    repr: &Icmpv6Repr<'_>,
    hop_limit: u8,
) -> Option<Vec<u8>> {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (from, to) else { return None };
    let mut bytes = vec![0; repr.buffer_len()];
    let mut packet = Icmpv6Packet::new_unchecked(&mut bytes);
    repr.emit(&source, &destination, &mut packet, &ChecksumCapabilities::default());
    Some(emit::packet(config.guest_mac, (from, to), IpProtocol::Icmpv6, hop_limit, &bytes))
}
