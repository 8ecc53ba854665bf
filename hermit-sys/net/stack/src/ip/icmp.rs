//! ICMP: errors about sent packets, and neighbor discovery.

use core::net::IpAddr;

use hermit_interface::Errno;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, Icmpv4Message, Icmpv4Packet, Icmpv6Message, Icmpv6Packet, Icmpv6Repr,
    NdiscNeighborFlags, NdiscRepr, RawHardwareAddress,
};

use crate::ip::delivery::{Delivery, Quoted};
use crate::ip::layer::Ip;
use crate::ip::neighbors::Advert;
use crate::phy::Phy;
use crate::wire::packet::Packet;

/// Returns the delivery of "fragmentation needed" or "packet too big".
fn path_mtu<'a>(sent: &'a [u8], mtu: Option<&[u8]>) -> Option<Delivery<'a>> {
    let mtu = mtu.and_then(|bytes| bytes.try_into().ok()).map_or(0, u16::from_be_bytes);
    Some(Delivery::PathMtu(Quoted::parse(sent)?, mtu))
}

impl Ip {
    /// Handles an ICMP message: an error about a sent packet, or neighbor discovery.
    pub(super) fn handle_icmp<'a>(
        &mut self,
        packet: &Packet<'a>,
        from: EthernetAddress,
        phy: &mut Phy,
        now: u64,
    ) -> Option<Delivery<'a>> {
        if !self.is_received_here(packet.destination) {
            return None;
        }
        match (packet.source, packet.destination) {
            (IpAddr::V4(_), _) => {
                let message = Icmpv4Packet::new_checked(packet.payload).ok()?;
                let error = match message.msg_type() {
                    Icmpv4Message::DstUnreachable => unreachable_v4(message.msg_code()),
                    Icmpv4Message::TimeExceeded => Errno::EHOSTUNREACH,
                    Icmpv4Message::ParamProblem => Errno::EPROTO,
                    _ => return None,
                };
                if !message.verify_checksum() {
                    return None;
                }
                match error {
                    // RFC 1191 §4.
                    Errno::EMSGSIZE => path_mtu(message.data(), packet.payload.get(6..8)),
                    error => Some(Delivery::Error(Quoted::parse(message.data())?, error)),
                }
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let message = Icmpv6Packet::new_checked(packet.payload).ok()?;
                if !message.verify_checksum(&source, &destination) {
                    return None;
                }
                match message.msg_type() {
                    Icmpv6Message::DstUnreachable => {
                        let error = unreachable_v6(message.msg_code());
                        Some(Delivery::Error(Quoted::parse(message.payload())?, error))
                    }
                    Icmpv6Message::TimeExceeded => {
                        Some(Delivery::Error(Quoted::parse(message.payload())?, Errno::EHOSTUNREACH))
                    }
                    Icmpv6Message::ParamProblem => {
                        Some(Delivery::Error(Quoted::parse(message.payload())?, Errno::EPROTO))
                    }
                    // RFC 4443 §3.2. The upper half of the MTU field is 0: no IPv6 packet is larger than 64
                    // KiB.
                    Icmpv6Message::PktTooBig => path_mtu(message.payload(), packet.payload.get(6..8)),
                    Icmpv6Message::NeighborSolicit | Icmpv6Message::NeighborAdvert => {
                        self.learn_from_ndisc(packet, from, &message, (phy, now))
                    }
                    Icmpv6Message::MldQuery | Icmpv6Message::RouterAdvert => {
                        self.start_fast_poll(now);
                        None
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    fn learn_from_ndisc<'a>(
        &mut self,
        packet: &Packet<'_>,
        from: EthernetAddress,
        message: &Icmpv6Packet<&[u8]>,
        (phy, now): (&mut Phy, u64),
    ) -> Option<Delivery<'a>> {
        let (IpAddr::V6(source), IpAddr::V6(destination)) = (packet.source, packet.destination) else {
            return None;
        };
        // A hop limit of 255 proves that the message comes from the link itself (RFC 4861, section 7.1).
        if packet.bytes.get(7) != Some(&255) {
            return None;
        }
        let parsed = Icmpv6Repr::parse(&source, &destination, message, &ChecksumCapabilities::ignored());
        let mac_of = |raw: RawHardwareAddress| <[u8; 6]>::try_from(raw.as_bytes()).map(EthernetAddress).ok();
        match parsed.ok()? {
            Icmpv6Repr::Ndisc(NdiscRepr::NeighborSolicit { lladdr: Some(mac), .. }) => {
                self.learn(packet.source, mac_of(mac)?, phy, now)
            }
            Icmpv6Repr::Ndisc(NdiscRepr::NeighborAdvert { lladdr, target_addr, flags }) => {
                let advert = Advert {
                    mac: lladdr.map(mac_of).map_or(Some(None), |mac| mac.map(Some))?,
                    from,
                    // RFC 4861, section 7.1.2: an advertisement to a group is not an answer.
                    is_solicited: flags.contains(NdiscNeighborFlags::SOLICITED)
                        && !destination.is_multicast(),
                    is_override: flags.contains(NdiscNeighborFlags::OVERRIDE),
                };
                self.learn_advertised(target_addr.into(), advert, phy, now)
            }
            _ => None,
        }
    }
}

/// Errno of an ICMP "destination unreachable" code, as in Linux (RFC 792; RFC 1122, section 3.2.2.1).
const fn unreachable_v4(code: u8) -> Errno {
    match code {
        0 | 6 | 9 | 11 => Errno::ENETUNREACH,
        2 => Errno::ENOPROTOOPT,
        3 => Errno::ECONNREFUSED,
        4 => Errno::EMSGSIZE,
        _ => Errno::EHOSTUNREACH,
    }
}

/// Errno of an `ICMPv6` "destination unreachable" code, as in Linux (RFC 4443, section 3.1).
const fn unreachable_v6(code: u8) -> Errno {
    match code {
        0 | 2 => Errno::ENETUNREACH,
        1 | 5 | 6 => Errno::EACCES,
        4 => Errno::ECONNREFUSED,
        _ => Errno::EHOSTUNREACH,
    }
}
