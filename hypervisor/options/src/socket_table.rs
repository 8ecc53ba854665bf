//! Sockets of a network namespace, as `/proc/net/tcp` and its like list them (proc_net(5)).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketEntry {
    /// Own address and port.
    pub local: SocketAddr,
    /// Address and port of the peer; unspecified if there is no peer.
    pub remote: SocketAddr,
    /// State, by the numbers of TCP (linux/tcp_states.h).
    pub state: u8,
    /// The user who has created the socket.
    pub user: u32,
    /// The inode. It is 0 if no program has the socket any more; then `user` is root.
    pub inode: u64,
}

impl SocketEntry {
    /// Parses a line. Returns `None` for the heading.
    #[must_use]
    pub fn parse(line: &str) -> Option<Self> {
        // Number, local and remote address, state, queues, timer, retransmissions, user, timeout, inode.
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (local, remote) = (parse_socket(fields.next()?)?, parse_socket(fields.next()?)?);
        let state = u8::from_str_radix(fields.next()?, 16).ok()?;
        let (user, inode) = (fields.nth(3)?.parse().ok()?, fields.nth(1)?.parse().ok()?);
        Some(Self { local, remote, state, user, inode })
    }
}

fn parse_socket(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    Some((parse_address(address)?, u16::from_str_radix(port, 16).ok()?).into())
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
    use super::SocketEntry;

    #[test]
    fn lines_are_parsed() {
        let listening = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 \
                         1000        0 9 1 0 100 0 0 10 0";
        let entry = SocketEntry::parse(listening).unwrap();
        assert_eq!(
            (entry.local, entry.remote),
            ("127.0.0.1:8080".parse().unwrap(), "0.0.0.0:0".parse().unwrap())
        );
        assert_eq!((entry.state, entry.user, entry.inode), (10, 1000, 9));
        let connected = "   1: B80D0120000000000000000001000000:0050 0000000000000000FFFF00000100007F:C350 \
                         01 00000000:00000000 00:00000000 00000000 65534        0 0 1 0 100 0 0 10 0";
        let entry = SocketEntry::parse(connected).unwrap();
        assert_eq!(entry.local, "[2001:db8::1]:80".parse().unwrap());
        assert_eq!(entry.remote.ip().to_canonical().to_string(), "127.0.0.1");
        assert_eq!((entry.remote.port(), entry.state, entry.user, entry.inode), (50_000, 1, 65_534, 0));
    }

    #[test]
    fn other_text_is_no_line() {
        for text in [
            "",
            "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
            "   0: 0100007:1F90 00000000:0000 0A 0:0 0:0 0 0 0 9",
            "   0: 0100007F:1F90 00000000:0000 0A 0:0 0:0 0 0 0",
        ] {
            assert_eq!(SocketEntry::parse(text), None, "{text}");
        }
    }
}
