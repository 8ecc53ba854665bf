//! Off-link gateways: some DHCP servers assign a prefix of 32 bits and a gateway outside of it.
//!
//! smoltcp does not send ARP requests for addresses outside of its networks, and ignores replies from these
//! addresses. smoltcp therefore gets an alias of the gateway: an address within its network. This module
//! translates between alias and address in ARP frames.

use alloc::vec::Vec;
use core::net::Ipv4Addr;

use hermit_base::try_alloc::try_to_vec;
use smoltcp::wire::{ArpPacket, EthernetProtocol, Ipv4Cidr};

use crate::ip::sources::is_unicast;
use crate::phy::device::Offload;
use crate::phy::tx_queue::Link;
use crate::wire::emit::ETHERNET;
use crate::wire::packet::Frame;

/// An off-link gateway, and the host's address, which determines its alias.
#[derive(Clone, Copy, Debug)]
pub(super) struct FarGateway {
    own: Ipv4Cidr,
    address: Ipv4Addr,
}

impl FarGateway {
    /// Creates the off-link gateway of a host with this address.
    pub(super) const fn new(own: Ipv4Cidr, address: Ipv4Addr) -> Self {
        Self { own, address }
    }

    /// Address and prefix of the host.
    pub(super) const fn own(&self) -> Ipv4Cidr {
        self.own
    }

    /// Address of the gateway.
    pub(super) const fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Address and prefix of the host for smoltcp. The network has at least two addresses.
    pub(super) fn network(&self) -> Ipv4Cidr {
        Ipv4Cidr::new(self.own.address(), self.own.prefix_len().min(31))
    }

    /// Alias of the gateway for smoltcp: the first address of the network, which no host has. If this address
    /// is not unicast (smoltcp would panic), or the prefix is longer than 30 bits, the alias is the host's
    /// address with the lowest bit inverted.
    pub(super) fn alias(&self) -> Ipv4Addr {
        let own = self.own.address().to_bits();
        let network = self.own.network().address();
        let is_usable = self.own.prefix_len() < 31 && is_unicast(network.into());
        if is_usable { network } else { Ipv4Addr::from_bits(own ^ 1) }
    }

    /// Translates a received frame for smoltcp; `None` if nothing changes.
    pub(super) fn incoming(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        let mut other = try_to_vec(bytes).ok()?;
        let mut packet =
            arp(&mut other).filter(|packet| packet.source_protocol_addr() == self.address.octets())?;
        packet.set_source_protocol_addr(&self.alias().octets());
        Some(other)
    }

    /// Translates an ARP frame from smoltcp.
    pub(super) fn outgoing(&self, bytes: &mut [u8]) {
        let alias = self.alias().octets();
        if let Some(mut packet) = arp(bytes).filter(|packet| packet.target_protocol_addr() == alias) {
            packet.set_target_protocol_addr(&self.address.octets());
        }
    }
}

/// Returns the ARP packet in a frame.
fn arp(bytes: &mut [u8]) -> Option<ArpPacket<&mut [u8]>> {
    Frame::parse(bytes).filter(|frame| frame.protocol == EthernetProtocol::Arp)?;
    ArpPacket::new_checked(bytes.get_mut(ETHERNET..)?).ok()
}

/// A transmit queue that translates frames from smoltcp.
pub(super) struct Exchanging<'a> {
    pub(super) link: &'a mut dyn Link,
    pub(super) gateway: Option<FarGateway>,
}

impl Link for Exchanging<'_> {
    fn can_transmit(&mut self, size: usize) -> bool {
        self.link.can_transmit(size)
    }

    fn transmit(&mut self, size: usize, offload: Offload, fill: &mut dyn FnMut(&mut [u8])) {
        let gateway = self.gateway;
        self.link.transmit(size, offload, &mut |bytes| {
            fill(bytes);
            if let Some(gateway) = gateway {
                gateway.outgoing(bytes);
            }
        });
    }

    fn is_sending(&mut self) -> bool {
        self.link.is_sending()
    }
}

#[cfg(test)]
mod tests {
    use super::FarGateway;
    use core::net::Ipv4Addr;
    use proptest::collection::vec;
    use proptest::{prelude::any, prop_assert, proptest};
    use smoltcp::wire::Ipv4Cidr;

    fn far(own: [u8; 4], prefix: u8) -> FarGateway {
        FarGateway::new(Ipv4Cidr::new(own.into(), prefix), Ipv4Addr::new(172, 31, 1, 1))
    }

    #[test]
    fn off_link_gateway_has_an_on_link_alias() {
        for (own, prefix, alias) in [
            ([10, 0, 0, 4], 32, [10, 0, 0, 5]),
            ([10, 0, 0, 5], 31, [10, 0, 0, 4]),
            ([10, 0, 0, 5], 24, [10, 0, 0, 0]),
            ([10, 0, 0, 5], 1, [10, 0, 0, 4]),
            ([240, 0, 0, 5], 3, [240, 0, 0, 4]),
        ] {
            let far = far(own, prefix);
            assert_eq!(far.alias().octets(), alias);
            assert!(far.network().contains_addr(&far.alias()) && far.network().address().octets() == own);
        }
    }

    proptest! {
        #[test]
        fn frames_other_than_arp_are_unchanged(state in vec(any::<u8>(), 0..60), sizes: (u8, u8)) {
            let mut frame = std::vec![2; 12];
            frame.extend([8, 6]);
            frame.extend(state);
            // Invalid address sizes.
            if let Some(place) = frame.get_mut(18..20) {
                place.copy_from_slice(&[sizes.0 % 16, sizes.1 % 16]);
            }
            let mut other = frame.clone();
            let far = far([10, 0, 0, 4], 32);
            far.outgoing(&mut other);
            prop_assert!(other == frame && far.incoming(&frame).is_none());
        }
    }
}
