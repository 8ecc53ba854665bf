//! Validation of the static configuration: capacity limits and unusable addresses.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

use hermit_interface::net::{MAX_ADDRESSES, MAX_NAMESERVERS};
use smoltcp::wire::EthernetAddress;

use crate::config::{Cidr, Configuration};
use crate::ip::sources::{is_host_address, is_server_address};
use crate::phy::device::NetDeviceInfo;

/// The first static gateway of each IP version.
pub(super) type StaticGateways = heapless::Vec<IpAddr, 2>;

/// Name servers.
pub(crate) type Nameservers = heapless::Vec<IpAddr, MAX_NAMESERVERS>;

/// Used and ignored parts of a configuration.
#[derive(Debug, Default)]
pub(super) struct Selection {
    pub(super) addresses: heapless::Vec<Cidr, MAX_ADDRESSES>,
    /// The first gateway of each IP version.
    pub(super) gateways: StaticGateways,
    pub(super) nameservers: Nameservers,
    pub(super) ignored: Vec<IpAddr>,
}

impl Selection {
    pub(super) fn of(configuration: &Configuration, info: &NetDeviceInfo) -> Self {
        let is_carried = |address: IpAddr| address.is_ipv4() || info.carries_v6();
        let is_possible = |address| is_host_address(address) && is_carried(address);
        let mut selection = Self::default();
        let has_v4 =
            configuration.addresses.iter().any(|own| own.address.is_ipv4() && is_possible(own.address));
        // One address is reserved for a lease.
        let room = MAX_ADDRESSES - usize::from(!has_v4);
        for own in &configuration.addresses {
            let is_usable = is_possible(own.address) && selection.addresses.len() < room;
            let is_taken = is_usable && selection.addresses.push(*own).is_ok();
            selection.ignored.extend((!is_taken).then_some(own.address));
        }
        for &gateway in &configuration.gateways {
            let is_first = !selection.gateways.iter().any(|other| other.is_ipv4() == gateway.is_ipv4());
            let is_taken = is_possible(gateway) && is_first && selection.gateways.push(gateway).is_ok();
            selection.ignored.extend((!is_taken).then_some(gateway));
        }
        for &server in &configuration.nameservers {
            let is_usable = is_server_address(server) && is_carried(server);
            let is_taken = is_usable && selection.nameservers.push(server).is_ok();
            selection.ignored.extend((!is_taken).then_some(server));
        }
        selection
    }
}

/// Link-local address with the modified EUI-64 interface identifier (RFC 4291, appendix A).
pub(super) fn link_local(mac: EthernetAddress) -> Cidr {
    let [a, b, c, d, e, f] = mac.0;
    let address = Ipv6Addr::new(
        0xfe80,
        0,
        0,
        0,
        u16::from_be_bytes([a ^ 2, b]),
        u16::from_be_bytes([c, 0xff]),
        u16::from_be_bytes([0xfe, d]),
        u16::from_be_bytes([e, f]),
    );
    Cidr { address: address.into(), prefix: 64 }
}
