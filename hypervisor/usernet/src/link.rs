//! The link to the guest: the gateway answers for every address but the guest's own, and advertises itself.

use std::net::{IpAddr, Ipv6Addr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::time::Duration;
use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetProtocol, Icmpv4Packet, Icmpv4Repr,
    Icmpv6Packet, Icmpv6Repr, NdiscNeighborFlags, NdiscPrefixInfoFlags, NdiscPrefixInformation, NdiscRepr,
    NdiscRouterFlags, RawHardwareAddress,
};

use crate::config::{Config, GATEWAY_LINK_LOCAL, GATEWAY_MAC, PREFIX_V6, is_host};
use crate::parse::{ETHERNET, Packet};
use crate::{emit, icmp};

/// ICMPv6 types of router solicitations and neighbor advertisements (RFC 4861 §4.1, §4.4).
pub(crate) const ROUTER_SOLICITATION: u8 = 133;
pub(crate) const NEIGHBOR_ADVERTISEMENT: u8 = 136;

/// Hop limit of neighbor discovery (RFC 4861 §4.1).
const HOP_LIMIT: u8 = 255;

/// Lifetime of the router in seconds, the longest one (RFC 4861 §4.2).
const ROUTER_LIFETIME: Duration = Duration::from_secs(65_535);

/// Infinite lifetime of a prefix (RFC 4861 §4.6.2).
const INFINITE: Duration = Duration::from_secs(u32::MAX as u64);

/// Length of the prefix that is advertised.
const PREFIX_LENGTH: u8 = 64;

/// All nodes on the link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Returns the ARP packet in a frame.
pub(crate) fn arp(frame: &[u8]) -> Option<ArpRepr> {
    ArpRepr::parse(&ArpPacket::new_checked(frame.get(ETHERNET..)?).ok()?).ok()
}

/// Returns true if the guest sends an ARP packet from its address, so that it has its address already.
pub(crate) fn is_from_guest(config: &Config, packet: &ArpRepr) -> bool {
    let &ArpRepr::EthernetIpv4 { source_protocol_addr, .. } = packet else { return false };
    source_protocol_addr == config.guest_v4.0
}

/// Answers an ARP request.
pub(crate) fn answer_arp(config: &Config, packet: &ArpRepr) -> Option<Vec<u8>> {
    let &ArpRepr::EthernetIpv4 { operation, source_protocol_addr, target_protocol_addr, .. } = packet else {
        return None;
    };
    // Not answered: the guest probes for a conflict with its own address (RFC 5227 §2.1.1), or announces the
    // address.
    let is_own = source_protocol_addr.is_unspecified()
        || target_protocol_addr == config.guest_v4.0
        || target_protocol_addr == source_protocol_addr;
    if operation != ArpOperation::Request || is_own {
        return None;
    }
    let reply = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Reply,
        source_hardware_addr: EthernetAddress(GATEWAY_MAC),
        source_protocol_addr: target_protocol_addr,
        target_hardware_addr: EthernetAddress(config.guest_mac),
        target_protocol_addr: source_protocol_addr,
    };
    let mut bytes = vec![0; reply.buffer_len()];
    reply.emit(&mut ArpPacket::new_unchecked(&mut bytes));
    Some(emit::ethernet(config.guest_mac, EthernetProtocol::Arp, &bytes))
}

/// Answers an ICMP message for the gateway itself.
pub(crate) fn answer_icmp_v4(config: &Config, packet: &Packet, message: &[u8]) -> Option<Vec<u8>> {
    let parsed = Icmpv4Packet::new_checked(message).ok()?;
    let Icmpv4Repr::EchoRequest { ident, seq_no, data } =
        Icmpv4Repr::parse(&parsed, &ChecksumCapabilities::ignored()).ok()?
    else {
        return None;
    };
    let reply = Icmpv4Repr::EchoReply { ident, seq_no, data };
    Some(icmp::message_v4(config, packet.destination, packet.source, &reply))
}

/// Answers an ICMPv6 message for the gateway itself: an echo request, or neighbor discovery.
pub(crate) fn answer_icmp_v6(config: &Config, packet: &Packet, message: &[u8]) -> Option<Vec<u8>> {
    let (IpAddr::V6(source), IpAddr::V6(destination)) = (packet.source, packet.destination) else {
        return None;
    };
    let parsed = Icmpv6Packet::new_checked(message).ok()?;
    match Icmpv6Repr::parse(&source, &destination, &parsed, &ChecksumCapabilities::ignored()).ok()? {
        Icmpv6Repr::EchoRequest { ident, seq_no, data } => {
            let reply = Icmpv6Repr::EchoReply { ident, seq_no, data };
            // A multicast address must not be a source (RFC 4291 §2.7).
            let from = match destination.is_multicast() {
                true if source.is_unicast_link_local() => GATEWAY_LINK_LOCAL,
                true => config.gateways.1,
                false => destination,
            };
            icmp::message_v6(config, from.into(), packet.source, &reply, HOP_LIMIT)
        }
        Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { target_addr, .. }) => {
            // Not answered: the guest checks its own addresses for duplicates (RFC 4862 §5.4).
            let is_own =
                source.is_unspecified() || target_addr == source || Some(target_addr) == config.guest_v6;
            if is_own || !is_host(target_addr.into()) {
                return None;
            }
            let reply = Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert {
                // Without the flag ROUTER, the guest would remove the gateway from its routers (RFC 4861
                // §7.2.5).
                flags: NdiscNeighborFlags::SOLICITED
                    | NdiscNeighborFlags::OVERRIDE
                    | NdiscNeighborFlags::ROUTER,
                target_addr,
                lladdr: Some(gateway_mac()),
            });
            icmp::message_v6(config, target_addr.into(), packet.source, &reply, HOP_LIMIT)
        }
        Icmpv6Repr::Ndisc(NdiscRepr::RouterSolicit { .. }) if config.has_servers => advertisement(config),
        _ => None,
    }
}

/// Returns a router advertisement.
pub(crate) fn advertisement(config: &Config) -> Option<Vec<u8>> {
    let prefix = NdiscPrefixInformation {
        prefix_len: PREFIX_LENGTH,
        flags: NdiscPrefixInfoFlags::ON_LINK | NdiscPrefixInfoFlags::ADDRCONF,
        valid_lifetime: INFINITE,
        preferred_lifetime: INFINITE,
        prefix: PREFIX_V6,
    };
    let message = Icmpv6Repr::Ndisc(NdiscRepr::RouterAdvert {
        hop_limit: 64,
        flags: NdiscRouterFlags::empty(),
        router_lifetime: ROUTER_LIFETIME,
        reachable_time: Duration::ZERO,
        retrans_time: Duration::ZERO,
        lladdr: Some(gateway_mac()),
        mtu: Some(config.mtu.into()),
        prefix_info: Some(prefix),
    });
    icmp::message_v6(config, GATEWAY_LINK_LOCAL.into(), ALL_NODES.into(), &message, HOP_LIMIT)
}

fn gateway_mac() -> RawHardwareAddress {
    EthernetAddress(GATEWAY_MAC).into()
}
