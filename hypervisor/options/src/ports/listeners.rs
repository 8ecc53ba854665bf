//! Sockets that listen on the host, as /proc/net/tcp and its like list them (proc_net(5)).

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermit_interface::port_forward::{PortForward, Protocol};

/// A TCP socket that listens, or a UDP socket without a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    address: IpAddr,
    port: u16,
    user: u32,
}

/// Returns all listeners of a protocol in the network namespace of this process.
///
/// # Errors
///
/// The host has no such list.
pub(super) fn all(protocol: Protocol) -> io::Result<Vec<Listener>> {
    // States of sockets that listen, and of datagram sockets without a peer.
    let (files, state) = match protocol {
        Protocol::Tcp => (["tcp", "tcp6"], "0A"),
        Protocol::Udp => (["udp", "udp6"], "07"),
    };
    let mut listeners = Vec::new();
    for file in files {
        match fs::read_to_string(format!("/proc/self/net/{file}")) {
            Ok(text) => listeners.extend(text.lines().filter_map(|line| parse(line, state))),
            // A host without IPv6.
            Err(error) if error.kind() == ErrorKind::NotFound && file.ends_with('6') => {}
            Err(error) => return Err(error),
        }
    }
    Ok(listeners)
}

/// True if there is a listener for the forward, and all sockets that may get its connections belong to
/// `owners`.
pub(super) fn belongs(listeners: &[Listener], forward: &PortForward, owners: &[u32]) -> bool {
    let mut matching = listeners.iter().filter(|listener| listener.takes(forward)).peekable();
    matching.peek().is_some() && matching.all(|listener| owners.contains(&listener.user))
}

impl Listener {
    /// True if this socket may get connections for the forward. A socket at `::` may take IPv4, too; then the
    /// forward's own socket cannot be bound, and is missing from the list.
    fn takes(&self, forward: &PortForward) -> bool {
        let is_there = match forward.address {
            None => true,
            Some(address) if address.is_unspecified() => address.is_ipv6() || self.address.is_ipv4(),
            Some(address) => {
                self.address == address
                    || self.address.is_unspecified() && self.address.is_ipv4() == address.is_ipv4()
            }
        };
        self.port == forward.host && is_there
    }
}

/// Parses a line of the list. Returns `None` if the socket is in another state than `state`.
fn parse(line: &str, state: &str) -> Option<Listener> {
    let mut fields = line.split_ascii_whitespace();
    let (local, found) = (fields.nth(1)?, fields.nth(1)?);
    // After the state: queues, timer, retransmissions.
    let user = fields.nth(3)?.parse().ok()?;
    let (address, port) = local.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(Listener { address: parse_address(address)?, port, user }).filter(|_| found == state)
}

/// Parses an address, whose 32-bit words are numbers in the host's byte order.
fn parse_address(text: &str) -> Option<IpAddr> {
    let word = |index: usize| {
        let digits = text.get(8 * index..8 * index + 8)?;
        u32::from_str_radix(digits, 16).ok().map(u32::to_ne_bytes)
    };
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            Some(Ipv6Addr::from_bits(u128::from_be_bytes(words.as_flattened().try_into().ok()?)).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Listener, belongs, parse};
    use hermit_interface::port_forward::PortForward;

    const V4: &str = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 \
                      1000        0 9 1 0 100 0 0 10 0";
    const V6: &str = "   1: B80D0120000000000000000001000000:0050 00000000000000000000000000000000:0000 \
                      0A 00000000:00000000 00:00000000 00000000 65534        0 9 1 0 100 0 0 10 0";

    fn listener(address: &str, user: u32) -> Listener {
        Listener { address: address.parse().unwrap(), port: 80, user }
    }

    #[test]
    fn lines_of_the_list_are_parsed() {
        assert_eq!(parse(V4, "0A"), Some(Listener { port: 8080, ..listener("127.0.0.1", 1000) }));
        assert_eq!(parse(V6, "0A"), Some(listener("2001:db8::1", 65534)));
        assert_eq!(parse(V4, "07"), None);
        for line in [
            "",
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
        ] {
            assert_eq!(parse(line, "0A"), None);
        }
    }

    #[test]
    fn all_listeners_of_a_forward_must_belong_to_the_owners() {
        let port = |text: &str| text.parse::<PortForward>().unwrap();
        for (forward, listeners, is_owned) in [
            ("80:1", &[("0.0.0.0", 7), ("::", 7)][..], true),
            ("80:1", &[("::", 7), ("127.0.0.1", 8)], false),
            ("80:1", &[("127.0.0.1", 8)], false),
            ("80:1", &[], false),
            ("81:1", &[("0.0.0.0", 7)], false),
            ("127.0.0.1:80:1", &[("127.0.0.1", 7), ("192.0.2.1", 8), ("::1", 8), ("::", 8)], true),
            ("127.0.0.1:80:1", &[("127.0.0.1", 7), ("0.0.0.0", 8)], false),
            ("127.0.0.1:80:1", &[("192.0.2.1", 7)], false),
            ("0.0.0.0:80:1", &[("0.0.0.0", 7), ("::1", 8)], true),
            ("0.0.0.0:80:1", &[("0.0.0.0", 7), ("127.0.0.1", 8)], false),
            ("[::]:80:1", &[("::", 7), ("127.0.0.1", 8)], false),
            ("[::1]:80:1", &[("::1", 7), ("127.0.0.1", 8)], true),
        ] {
            let listeners: Vec<_> =
                listeners.iter().map(|&(address, user)| listener(address, user)).collect();
            assert_eq!(belongs(&listeners, &port(forward), &[9, 7]), is_owned, "{forward} {listeners:?}");
        }
    }
}
