//! Sockets that listen on the host.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;

use hermit_interface::port_forward::{PortForward, Protocol};

use crate::socket_table::SocketEntry;

/// A TCP socket that listens, or a UDP socket without a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Listener {
    local: SocketAddr,
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
        Protocol::Tcp => (["tcp", "tcp6"], 10),
        Protocol::Udp => (["udp", "udp6"], 7),
    };
    let mut listeners = Vec::new();
    for file in files {
        match fs::read_to_string(format!("/proc/self/net/{file}")) {
            Ok(text) => {
                let entries = text.lines().filter_map(SocketEntry::parse);
                let found = entries.filter(|entry| entry.state == state);
                listeners.extend(found.map(|SocketEntry { local, user, .. }| Listener { local, user }));
            }
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
        let own = self.local.ip();
        let is_there = match forward.address {
            None => true,
            Some(address) if address.is_unspecified() => address.is_ipv6() || own.is_ipv4(),
            Some(address) => own == address || own.is_unspecified() && own.is_ipv4() == address.is_ipv4(),
        };
        self.local.port() == forward.host && is_there
    }
}

#[cfg(test)]
mod tests {
    use super::{Listener, belongs};
    use hermit_interface::port_forward::PortForward;
    use std::net::SocketAddr;

    fn listener(address: &str, user: u32) -> Listener {
        Listener { local: SocketAddr::new(address.parse().unwrap(), 80), user }
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
