//! Network configuration of the host: its addresses and DNS servers (resolv.conf(5)).

use std::fs;
use std::io;
use std::net::IpAddr;

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;

/// Returns the addresses of all interfaces of the host, including the loopback.
///
/// # Errors
///
/// The host returned an error instead of the list.
pub fn addresses() -> io::Result<Vec<IpAddr>> {
    Ok(getifaddrs()?.filter_map(|interface| ip_address(&interface.address?)).collect())
}

fn ip_address(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|address| address.ip().into());
    v4.or_else(|| address.as_sockaddr_in6().map(|address| address.ip().into()))
}

/// Returns the DNS servers of /etc/resolv.conf.
#[must_use]
pub fn nameservers() -> Vec<IpAddr> {
    parse_nameservers(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}

/// Returns the servers in the text of a resolv.conf(5). Servers with a zone (`fe80::1%eth0`) are left out,
/// because a guest cannot use them.
fn parse_nameservers(text: &str) -> Vec<IpAddr> {
    let server = |line: &str| match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        ["nameserver", address, ..] => address.parse().ok(),
        _ => None,
    };
    text.lines().filter_map(server).collect()
}

#[cfg(test)]
mod tests {
    use super::{addresses, parse_nameservers};
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
    fn nameservers_are_parsed() {
        let text = "search a\nnameserver\t127.0.0.53\n# nameserver 1.1.1.1\nnameserver fe80::1%eth0\nnameserver fd00::1 x\n";
        assert_eq!(
            parse_nameservers(text),
            ["127.0.0.53", "fd00::1"].map(|text| text.parse::<IpAddr>().unwrap())
        );
    }
}
