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

/// Minimum number of bytes after the IP header that an error quotes (RFC 792): the ports, and the sequence
/// number of a TCP segment.
const QUOTED: usize = 8;

/// Why a packet of the guest did not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreachable {
    Network,
    Host,
    /// Nothing is bound to the port.
    Port,
    /// The egress policy has closed the address.
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

/// Returns an ICMP error about a packet of the guest. It comes from the peer if the peer's port is
/// unreachable, otherwise from the gateway. `start` has the first bytes of the packet's payload, and `length`
/// is the payload's size in bytes.
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

/// Returns an ICMP error about a datagram or an echo request that the guest has sent earlier. Its bytes are
/// no longer known, so the error quotes reconstructed headers.
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

/// Returns a frame with an ICMP message for the guest.
pub(crate) fn message_v4(config: &Config, from: IpAddr, guest: IpAddr, repr: &Icmpv4Repr<'_>) -> Vec<u8> {
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut Icmpv4Packet::new_unchecked(&mut bytes), &ChecksumCapabilities::default());
    emit::packet(config.guest_mac, (from, guest), IpProtocol::Icmp, HOP_LIMIT, &bytes)
}

/// Returns a frame with an ICMPv6 message for the guest; `None` unless both addresses are IPv6.
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
