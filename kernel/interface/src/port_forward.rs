//! Port forwarding: the value of `-p`, `[ADDRESS:]HOST:GUEST[/udp]`.

use alloc::format;
use alloc::string::String;
use core::fmt;
use core::net::{IpAddr, Ipv6Addr};
use core::num::NonZeroU16;
use core::str::FromStr;

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// A port of the host that is forwarded to a port of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortForward {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Address of the host; all addresses if `None`.
    pub address: Option<IpAddr>,
    /// Port of the host; 0 is any free one.
    pub host: u16,
    /// Port of the guest.
    pub guest: NonZeroU16,
}

impl PortForward {
    /// Whether the forward covers the port at `address`; with `None`, at all addresses.
    fn covers(&self, address: Option<IpAddr>) -> bool {
        match self.address {
            None => true,
            // A dual-stack socket: covers all IPv4 addresses, too.
            Some(IpAddr::V6(own)) if own.is_unspecified() => true,
            Some(IpAddr::V4(own)) if own.is_unspecified() => address.is_some_and(|other| other.is_ipv4()),
            own => own == address,
        }
    }

    /// The forward as an option of passt(1), and its value.
    #[must_use]
    pub fn passt_option(&self) -> [String; 2] {
        let option = match self.protocol {
            Protocol::Tcp => "--tcp-ports",
            Protocol::Udp => "--udp-ports",
        };
        let at = self.address.map(|address| format!("{address}/")).unwrap_or_default();
        [String::from(option), format!("{at}{}:{}", self.host, self.guest)]
    }

    fn conflicts_with(&self, other: &Self) -> bool {
        self.host != 0
            && (self.protocol, self.host) == (other.protocol, other.host)
            && (self.covers(other.address) || other.covers(self.address))
    }
}

/// The first port of the host that two forwards cover at the same address.
#[must_use]
pub fn first_conflict(forwards: &[PortForward]) -> Option<u16> {
    let is_second = |&(index, forward): &(usize, &PortForward)| {
        forwards.iter().take(index).any(|earlier| earlier.conflicts_with(forward))
    };
    forwards.iter().enumerate().find(is_second).map(|(_, forward)| forward.host)
}

impl fmt::Display for PortForward {
    /// Writes what [`FromStr`] reads.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address @ IpAddr::V6(_)) => write!(out, "[{address}]:")?,
            Some(address) => write!(out, "{address}:")?,
            None => {}
        }
        write!(out, "{}:{}", self.host, self.guest)?;
        if self.protocol == Protocol::Udp { out.write_str("/udp") } else { Ok(()) }
    }
}

impl FromStr for PortForward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "`{text}` is no pair of ports: write HOST:GUEST, such as 8080:80, 127.0.0.1:8080:80, \
                 [::1]:8080:80, 5353:53/udp, or 0:80 for any free port of the host"
            )
        };
        let (ports, protocol) = match text.split_once('/') {
            None | Some((_, "tcp")) => (text.trim_end_matches("/tcp"), Protocol::Tcp),
            Some((ports, "udp")) => (ports, Protocol::Udp),
            Some(_) => return Err(help()),
        };
        let (rest, guest) = ports.rsplit_once(':').ok_or_else(help)?;
        let (address, host) = match rest.rsplit_once(':') {
            Some((address, host)) => (Some(parse_address(address).ok_or_else(help)?), host),
            None => (None, rest),
        };
        let port = |text: &str| -> Result<u16, String> {
            let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
            text.parse().ok().filter(|_| is_number).ok_or_else(help)
        };
        let guest = NonZeroU16::new(port(guest)?).ok_or_else(help)?;
        Ok(Self { protocol, address, host: port(host)?, guest })
    }
}

/// Parses the address before a port: IPv6 addresses are in brackets.
fn parse_address(text: &str) -> Option<IpAddr> {
    match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(address) => address.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => text.parse().ok().filter(IpAddr::is_ipv4),
    }
}

#[cfg(test)]
mod tests {
    use super::{PortForward, Protocol, first_conflict};
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    #[test]
    fn forward_is_parsed() {
        let forward = |protocol, address: Option<&str>, host: u16, guest: u16| PortForward {
            protocol,
            address: address.map(|address| address.parse().unwrap()),
            host,
            guest: guest.try_into().unwrap(),
        };
        for (text, expected) in [
            ("8080:80", forward(Protocol::Tcp, None, 8080, 80)),
            ("8080:80/tcp", forward(Protocol::Tcp, None, 8080, 80)),
            ("127.0.0.1:8080:80", forward(Protocol::Tcp, Some("127.0.0.1"), 8080, 80)),
            ("0:80", forward(Protocol::Tcp, None, 0, 80)),
            ("[::1]:5353:53/udp", forward(Protocol::Udp, Some("::1"), 5353, 53)),
        ] {
            assert_eq!(text.parse(), Ok(expected));
            assert_eq!(expected.to_string(), text.trim_end_matches("/tcp"));
        }
    }

    #[test]
    fn invalid_forward_is_an_error_with_the_syntax() {
        for text in [
            "",
            "80",
            ":80",
            "80:",
            "80:0",
            "80:65536",
            "+80:80",
            "80:80/sctp",
            "80:80/",
            "80:80/tcp/tcp",
            "::1:80:80",
            "[127.0.0.1]:80:80",
            "localhost:80:80",
            "80-90:80-90",
        ] {
            assert!(text.parse::<PortForward>().unwrap_err().contains("8080:80"), "{text}");
        }
    }

    #[test]
    fn conflicting_forwards_are_found() {
        let conflict = |text: &str| {
            let forwards: Vec<PortForward> = text.split(' ').map(|text| text.parse().unwrap()).collect();
            first_conflict(&forwards)
        };
        for text in [
            "80:1 80:2",
            "81:1 80:1 80:1",
            "80:1 127.0.0.1:80:1",
            "0.0.0.0:80:1 127.0.0.1:80:1",
            "[::1]:80:1/udp [::]:80:1/udp",
            "127.0.0.1:80:1 [::]:80:1",
            "0.0.0.0:80:1 80:1",
        ] {
            assert_eq!(conflict(text), Some(80), "{text}");
        }
        for text in [
            "80:1",
            "0:1 0:2",
            "80:1 81:1",
            "80:1 80:1/udp",
            "127.0.0.1:80:1 127.0.0.2:80:1",
            "[::1]:80:1 127.0.0.1:80:1",
            "0.0.0.0:80:1 [::1]:80:1",
        ] {
            assert_eq!(conflict(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn parser_accepts_arbitrary_text(text: String) {
            if let Ok(forward) = text.parse::<PortForward>() {
                prop_assert_eq!(forward.to_string().parse(), Ok(forward));
            }
        }
    }
}
