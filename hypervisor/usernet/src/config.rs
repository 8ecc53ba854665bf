//! Addresses of the network, and the ports of the host that are forwarded.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// MAC address.
pub type Mac = [u8; 6];

/// MAC address of the gateway, which answers for all addresses except the guest's.
pub const GATEWAY_MAC: Mac = [0x52, 0x55, 0x0a, 0, 2, 2];

/// Default IPv4 address of the guest. All default IPv4 addresses are those of QEMU's user network.
pub const GUEST_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
/// Gateway of the network.
pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// DNS server of the network.
pub const DNS_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
/// Port of name servers.
pub const DNS_PORT: u16 = 53;
/// Prefix length of the network.
pub const PREFIX_V4: u8 = 24;
/// Prefix of the network, 64 bits long: a unique local address (RFC 4193).
pub const PREFIX_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x10, 0, 2, 0, 0, 0, 0);
/// Gateway of the network.
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0x10, 0, 2, 0, 0, 0, 2);
/// Link-local address from which the gateway sends router advertisements.
pub const GATEWAY_LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

/// Configuration of a network.
#[derive(Clone, Debug)]
pub struct Config {
    /// MAC address of the guest.
    pub guest_mac: Mac,
    /// Maximum size in bytes of an IP packet, in both directions.
    pub mtu: u16,
    /// IPv4 address of the guest, which the DHCP server assigns, and its prefix length.
    pub guest_v4: (Ipv4Addr, u8),
    /// Default gateways.
    pub gateways: (Ipv4Addr, Ipv6Addr),
    /// IPv6 address of the guest, if it is known before the guest has sent anything.
    pub guest_v6: Option<Ipv6Addr>,
    /// True if DHCP and router advertisements configure the guest's addresses.
    pub has_servers: bool,
    /// DNS servers that DHCP announces.
    pub nameservers: Vec<Ipv4Addr>,
    /// Name server of the host that answers queries to [`DNS_V4`].
    pub resolver: Option<SocketAddr>,
    /// Search domains that DHCP announces.
    pub search: Vec<String>,
    /// Host name of the guest that DHCP announces.
    pub hostname: Option<String>,
    /// True if the gateways' addresses lead to the host's loopback.
    pub has_host_loopback: bool,
    /// TCP port of the guest for each TCP listener, indexed by the listener's number.
    pub tcp_ports: Vec<u16>,
    /// UDP port of the guest for each forwarded UDP port, indexed by the forwarded port's number.
    pub udp_ports: Vec<u16>,
}

impl Config {
    /// Returns the configuration with the default addresses.
    #[must_use]
    pub fn new(guest_mac: Mac, mtu: u16) -> Self {
        Self {
            guest_mac,
            mtu,
            guest_v4: (GUEST_V4, PREFIX_V4),
            gateways: (GATEWAY_V4, GATEWAY_V6),
            guest_v6: None,
            has_servers: true,
            nameservers: vec![DNS_V4],
            resolver: None,
            search: Vec::new(),
            hostname: None,
            has_host_loopback: false,
            tcp_ports: Vec::new(),
            udp_ports: Vec::new(),
        }
    }

    /// Returns the gateway's address of the same IP version as `other`.
    pub(crate) fn gateway(&self, other: IpAddr) -> IpAddr {
        if other.is_ipv4() { self.gateways.0.into() } else { self.gateways.1.into() }
    }

    /// Translates the destination of a guest's packet into an address for the host's sockets. Returns `None`
    /// if the packet must be dropped.
    pub(crate) fn outside(&self, to: SocketAddr) -> Option<SocketAddr> {
        let ip = to.ip();
        if ip == IpAddr::V4(DNS_V4) && to.port() == DNS_PORT && self.resolver.is_some() {
            return self.resolver;
        }
        if ip == self.gateway(ip) {
            let loopback: IpAddr =
                if ip.is_ipv4() { Ipv4Addr::LOCALHOST.into() } else { Ipv6Addr::LOCALHOST.into() };
            return self.has_host_loopback.then(|| SocketAddr::new(loopback, to.port()));
        }
        is_host(ip).then_some(to)
    }

    /// Translates `from`, the address of a peer on the host's network, into the address that the guest sees.
    /// The gateway's address replaces addresses that would mean the guest itself, such as the loopback, and
    /// addresses of the other IP version.
    pub(crate) fn inside(&self, from: SocketAddr, guest: IpAddr) -> SocketAddr {
        let ip = from.ip().to_canonical();
        let is_visible =
            ip.is_ipv4() == guest.is_ipv4() && !ip.is_loopback() && !ip.is_unspecified() && ip != guest;
        SocketAddr::new(if is_visible { ip } else { self.gateway(guest) }, from.port())
    }
}

/// Returns true for an address that a single host can have in a packet (RFC 1122 §3.2.1.3, RFC 4291 §2.5).
pub(crate) fn is_host(ip: IpAddr) -> bool {
    let is_special = match ip {
        IpAddr::V4(ip) => ip.is_broadcast(),
        IpAddr::V6(ip) => ip.to_ipv4_mapped().is_some(),
    };
    !(is_special || ip.is_unspecified() || ip.is_loopback() || ip.is_multicast())
}

#[cfg(test)]
mod tests {
    use super::Config;
    use std::net::{IpAddr, SocketAddr};

    fn at(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn gateway_leads_to_the_loopback_only_if_it_is_open() {
        let mut config = Config::new([2; 6], 1500);
        assert_eq!(config.outside(at("10.0.2.2:80")), None);
        assert_eq!(config.outside(at("[fd00:10:0:2::2]:80")), None);
        config.has_host_loopback = true;
        assert_eq!(config.outside(at("10.0.2.2:80")), Some(at("127.0.0.1:80")));
        assert_eq!(config.outside(at("[fd00:10:0:2::2]:80")), Some(at("[::1]:80")));
    }

    #[test]
    fn only_addresses_of_hosts_lead_outside() {
        let config = Config::new([2; 6], 1500);
        for open in ["192.0.2.1:1", "[2001:db8::1]:1"] {
            assert_eq!(config.outside(at(open)), Some(at(open)));
        }
        for closed in [
            "0.0.0.0:1",
            "127.0.0.1:1",
            "127.9.9.9:1",
            "224.0.0.1:1",
            "255.255.255.255:1",
            "[::]:1",
            "[::1]:1",
            "[ff02::1]:1",
            "[::ffff:127.0.0.1]:1",
            "[::ffff:192.0.2.1]:1",
        ] {
            assert_eq!(config.outside(at(closed)), None, "{closed}");
        }
    }

    #[test]
    fn queries_go_to_the_resolver_of_the_host() {
        let mut config = Config::new([2; 6], 1500);
        assert_eq!(config.outside(at("10.0.2.3:53")), Some(at("10.0.2.3:53")));
        config.resolver = Some(at("127.0.0.53:53"));
        assert_eq!(config.outside(at("10.0.2.3:53")), Some(at("127.0.0.53:53")));
        assert_eq!(config.outside(at("10.0.2.3:54")), Some(at("10.0.2.3:54")));
    }

    #[test]
    fn clients_are_visible_but_those_on_the_host() {
        let config = Config::new([2; 6], 1500);
        let guest: IpAddr = "10.0.2.15".parse().unwrap();
        for (from, seen) in [
            ("192.0.2.1:5", "192.0.2.1:5"),
            ("[::ffff:192.0.2.1]:5", "192.0.2.1:5"),
            ("127.0.0.1:5", "10.0.2.2:5"),
            ("10.0.2.15:5", "10.0.2.2:5"),
            ("[2001:db8::1]:5", "10.0.2.2:5"),
        ] {
            assert_eq!(config.inside(at(from), guest), at(seen), "{from}");
        }
    }
}
