//! Port forwarding: the value of `-p`, `[ADDRESS:]HOST:GUEST[/udp]`, where HOST and GUEST may be ranges of
//! ports.
//!
//! A forward stands for a range of ports, so that many forwarded ports are one short value. Two forwards
//! conflict if the host could not bind both: they have the same protocol, a common port, and overlapping
//! addresses. [`first_conflict`] finds conflicts, so that they can be reported as errors of the command line.

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

/// Ports of the host that are forwarded to as many ports of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortForward {
    /// Transport protocol.
    pub protocol: Protocol,
    /// Address of the host; all addresses if `None`.
    pub address: Option<IpAddr>,
    /// First port of the host; 0 is any free one.
    pub host: u16,
    /// First port of the guest.
    pub guest: NonZeroU16,
    /// Number of ports, one if the host's is 0. Neither range exceeds the last port, 65,535.
    pub count: NonZeroU16,
}

impl PortForward {
    /// Forwards of one port each that are equal to this one together.
    pub fn each(self) -> impl Iterator<Item = Self> {
        (0..self.count.get()).map(move |number| Self {
            host: self.host.saturating_add(number),
            guest: self.guest.saturating_add(number),
            count: NonZeroU16::MIN,
            ..self
        })
    }

    /// Returns true if the forward covers the port at `address`; with `None`, at all addresses.
    fn covers(&self, address: Option<IpAddr>) -> bool {
        match self.address {
            None => true,
            // A dual-stack socket: covers all IPv4 addresses, too.
            Some(IpAddr::V6(own)) if own.is_unspecified() => true,
            Some(IpAddr::V4(own)) if own.is_unspecified() => address.is_some_and(|other| other.is_ipv4()),
            own => own == address,
        }
    }

    /// Returns the first port of the host that both this forward and another one use.
    fn conflict_with(&self, other: &Self) -> Option<u16> {
        let first = self.host.max(other.host);
        let has = |forward: &Self| first - forward.host < forward.count.get();
        (self.host != 0
            && other.host != 0
            && self.protocol == other.protocol
            && (self.covers(other.address) || other.covers(self.address))
            && has(self)
            && has(other))
        .then_some(first)
    }
}

/// The first port of the host that two forwards cover at the same address.
#[must_use]
pub fn first_conflict(forwards: &[PortForward]) -> Option<u16> {
    let conflict = |(index, forward): (usize, &PortForward)| {
        forwards.iter().take(index).find_map(|earlier| earlier.conflict_with(forward))
    };
    forwards.iter().enumerate().find_map(conflict)
}

impl fmt::Display for PortForward {
    /// Writes the forward in the format that [`FromStr`] reads.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address @ IpAddr::V6(_)) => write!(out, "[{address}]:")?,
            Some(address) => write!(out, "{address}:")?,
            None => {}
        }
        let (host, guest) = (self.host, self.guest.get());
        match self.count.get() - 1 {
            0 => write!(out, "{host}:{guest}")?,
            more => write!(out, "{host}-{}:{guest}-{}", host + more, guest + more)?,
        }
        if self.protocol == Protocol::Udp { out.write_str("/udp") } else { Ok(()) }
    }
}

impl FromStr for PortForward {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "`{text}` is no pair of ports: write HOST:GUEST, such as 8080:80, 127.0.0.1:8080:80, \
                 [::1]:8080:80, 5353:53/udp, 8000-8010:8000-8010, or 0:80 for any free port of the host"
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
        let ((host, hosts), (guest, guests)) =
            (parse_range(host).ok_or_else(help)?, parse_range(guest).ok_or_else(help)?);
        if hosts != guests {
            return Err(format!(
                "`{text}` has ranges of {hosts} and of {guests} ports: write two of the same size"
            ));
        }
        let is_range_of_any = host == 0 && hosts > NonZeroU16::MIN;
        let guest = NonZeroU16::new(guest).filter(|_| !is_range_of_any).ok_or_else(help)?;
        Ok(Self { protocol, address, host, guest, count: hosts })
    }
}

/// Parses a port, or the first and the last port of a range. Returns the first port and the number of ports.
fn parse_range(text: &str) -> Option<(u16, NonZeroU16)> {
    let port = |text: &str| -> Option<u16> {
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse().ok().filter(|_| is_number)
    };
    let Some((first, last)) = text.split_once('-') else { return Some((port(text)?, NonZeroU16::MIN)) };
    let (first, last) = (port(first)?, port(last)?);
    let count = last.checked_sub(first)?.checked_add(1)?;
    Some((first, NonZeroU16::new(count)?))
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
    use core::num::NonZeroU16;
    use proptest::prelude::*;

    #[test]
    fn forward_is_parsed() {
        let forward = |protocol, address: Option<&str>, host: u16, guest: u16| PortForward {
            protocol,
            address: address.map(|address| address.parse().unwrap()),
            host,
            guest: guest.try_into().unwrap(),
            count: NonZeroU16::MIN,
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
    fn range_is_as_many_forwards() {
        let forward = |text: &str| text.parse::<PortForward>().unwrap();
        for (text, each) in [
            (
                "127.0.0.1:8000-8002:80-82/udp",
                &["127.0.0.1:8000:80/udp", "127.0.0.1:8001:81/udp", "127.0.0.1:8002:82/udp"][..],
            ),
            ("65534-65535:1-2", &["65534:1", "65535:2"]),
            ("0:80", &["0:80"]),
            ("80-80:90-90", &["80:90"]),
        ] {
            let each: Vec<_> = each.iter().map(|text| forward(text)).collect();
            assert_eq!(forward(text).each().collect::<Vec<_>>(), each, "{text}");
        }
        assert_eq!(forward("1-65535:1-65535").each().count(), 65_535);
        let error = "80-90:80-91".parse::<PortForward>().unwrap_err();
        assert!(error.contains("ranges of 11 and of 12 ports"), "{error}");
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
            "90-80:90-80",
            "80-:80-90",
            "0-10:80-90",
            "80-90:0-10",
            "0-65535:0-65535",
            "80-65536:80-65536",
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
            "70-80:1-11 80-90:1-11",
            "80-90:1-11 127.0.0.1:70-100:1-31",
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
            "0:1 1-65535:1-65535",
            "70-79:1-10 80-90:1-11",
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
