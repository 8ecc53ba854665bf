//! Validation of source addresses.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smoltcp::wire::IpProtocol;

use crate::wire::packet::Packet;

/// The ports of DHCP (RFC 2131, section 4.1).
pub(crate) const DHCP_SERVER: u16 = 67;
pub(crate) const DHCP_CLIENT: u16 = 68;

/// True if the source address of a packet is invalid (martian), as in Linux. The unspecified address is valid
/// for DHCP, IGMP and neighbor discovery only (RFC 1122, section 3.2.1.3; RFC 4861, section 7.1.1).
pub(crate) fn is_no_source(packet: &Packet<'_>) -> bool {
    match (packet.source, packet.protocol) {
        // Programs would mistake a mapped address for an IPv4 address.
        (IpAddr::V6(source), _) if source.to_ipv4_mapped().is_some() => true,
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpProtocol::Igmp)
        | (IpAddr::V6(Ipv6Addr::UNSPECIFIED), IpProtocol::Icmpv6) => false,
        (IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpProtocol::Udp) => {
            let ports = packet.payload.first_chunk().map(|&[a, b, c, d]| [[a, b], [c, d]]);
            let is_for_server =
                ports.map(|ports| ports.map(u16::from_be_bytes)) == Some([DHCP_CLIENT, DHCP_SERVER]);
            packet.fragment.is_some() || !is_for_server || packet.destination != Ipv4Addr::BROADCAST
        }
        (IpAddr::V4(source), _) if source.octets()[0] == 0 => true,
        (source, _) => !is_unicast(source),
    }
}

/// True if an address is unicast.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !address.is_unspecified() && !address.is_multicast() && !is_broadcast
}

/// True if an address may be used for a DNS server.
pub(crate) fn is_server_address(address: IpAddr) -> bool {
    !address.is_unspecified() && !address.is_multicast()
}

/// True if an address may be used for a host. smoltcp panics when it solicits an address that is not unicast.
pub(crate) fn is_host_address(address: IpAddr) -> bool {
    let is_reserved = matches!(address, IpAddr::V4(address) if matches!(address.octets()[0], 0 | 255));
    is_unicast(address) && !address.is_loopback() && !is_reserved
}
