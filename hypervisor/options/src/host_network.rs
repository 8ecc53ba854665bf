//! The network configuration of the host: what `ip address`, `ip route` and resolv.conf(5) say.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

/// Returns the addresses of all interfaces of the host, also those of its loopback.
///
/// # Errors
///
/// The host does not list them.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    Ok(getifaddrs()?.filter_map(|interface| ip_address(&interface.address?)).collect())
}

fn ip_address(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

/// Returns the default gateways of all interfaces.
#[must_use]
pub fn default_gateways() -> Vec<IpAddr> {
    let v4 = fs::read_to_string("/proc/self/net/route").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/self/net/ipv6_route").unwrap_or_default();
    v4.lines().filter_map(gateway_v4).chain(v6.lines().filter_map(gateway_v6)).collect()
}

/// The gateway of a default route in /proc/net/route, which has the bytes of addresses as numbers in the host's byte order.
fn gateway_v4(route: &str) -> Option<IpAddr> {
    match route.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        [_, "00000000", gateway, _, _, _, _, "00000000", ..] => {
            let gateway = Ipv4Addr::from(u32::from_str_radix(gateway, 16).ok()?.to_ne_bytes());
            (!gateway.is_unspecified()).then_some(gateway.into())
        }
        _ => None,
    }
}

/// The gateway of a default route in /proc/net/ipv6_route.
fn gateway_v6(route: &str) -> Option<IpAddr> {
    match route.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        ["00000000000000000000000000000000", "00", _, _, gateway, ..] => {
            let gateway = Ipv6Addr::from_bits(u128::from_str_radix(gateway, 16).ok()?);
            (!gateway.is_unspecified()).then_some(gateway.into())
        }
        _ => None,
    }
}

/// Returns the DNS servers of /etc/resolv.conf.
#[must_use]
pub fn nameservers() -> Vec<IpAddr> {
    parse_nameservers(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}

/// The servers in the text of a resolv.conf(5). One with a zone (`fe80::1%eth0`) is left out: a guest cannot use it.
pub(crate) fn parse_nameservers(text: &str) -> Vec<IpAddr> {
    let server = |line: &str| match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        ["nameserver", address, ..] => address.parse().ok(),
        _ => None,
    };
    text.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::{addresses, gateway_v4, gateway_v6, parse_nameservers};
    use std::net::{IpAddr, Ipv4Addr, UdpSocket};

    #[test]
    fn addresses_of_the_host_can_be_bound() {
        let found = addresses().unwrap();
        assert!(found.contains(&Ipv4Addr::LOCALHOST.into()), "{found:?}");
        for address in found.iter().filter(|address| address.is_ipv4()) {
            UdpSocket::bind((*address, 0)).unwrap();
        }
    }

    #[test]
    fn gateways_of_default_routes_are_found() {
        for (route, gateway) in [
            ("eth0 00000000 010200C0 0003 0 0 0 00000000 0 0 0", Some("192.0.2.1")),
            ("tun0 00000000 00000000 0001 0 0 0 00000000 0 0 0", None),
            ("eth0 000200C0 010200C0 0001 0 0 0 00FFFFFF 0 0 0", None),
            ("vpn0 00000000 010200C0 0003 0 0 0 00000080 0 0 0", None),
            ("Iface Destination Gateway Flags RefCnt Use Metric Mask MTU Window IRTT", None),
            ("", None),
        ] {
            assert_eq!(gateway_v4(route), gateway.map(|text| text.parse::<IpAddr>().unwrap()), "{route}");
        }
        let zero = "00000000000000000000000000000000";
        for (route, gateway) in [
            (
                format!("{zero} 00 {zero} 00 fe800000000000000000000000000009 00000400 0 0 3 eth0"),
                Some("fe80::9"),
            ),
            (format!("{zero} 00 {zero} 00 {zero} ffffffff 0 0 200200 lo"), None),
            (format!("fd{} 08 {zero} 00 {zero} 00000400 0 0 1 eth0", &zero[2..]), None),
        ] {
            assert_eq!(gateway_v6(&route), gateway.map(|text| text.parse::<IpAddr>().unwrap()), "{route}");
        }
    }

    #[test]
    fn nameservers_are_parsed() {
        let text = "search a\nnameserver\t127.0.0.53\n# nameserver 1.1.1.1\nnameserver fe80::1%eth0\nnameserver fd00::1 x\n";
        assert_eq!(
            parse_nameservers(text),
            ["127.0.0.53", "fd00::1"].map(|text| text.parse::<IpAddr>().unwrap())
        );
    }
}
