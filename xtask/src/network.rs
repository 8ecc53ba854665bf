//! How a guest is connected: `--net` and `-p`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A port of the host that is passed on to the guest: `[ADDRESS:]HOST:GUEST[/udp]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Port {
    /// The address of the host on which it is taken; all of them without one.
    address: Option<IpAddr>,
    /// The host's port.
    host: u16,
    /// The guest's port.
    guest: u16,
    protocol: Protocol,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protocol {
    Tcp,
    Udp,
}

impl FromStr for Port {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || format!("`{text}` is not written [ADDRESS:]HOST:GUEST[/udp], as in 8080:80");
        let (ports, protocol) = match text.rsplit_once('/') {
            None => (text, Protocol::Tcp),
            Some((ports, "tcp")) => (ports, Protocol::Tcp),
            Some((ports, "udp")) => (ports, Protocol::Udp),
            Some(_) => return Err(help()),
        };
        let (host, guest) = ports.rsplit_once(':').ok_or_else(help)?;
        let (address, host) =
            host.rsplit_once(':').map_or((None, host), |(address, host)| (Some(address), host));
        let number = |text: &str| text.parse().ok().filter(|&port| port != 0).ok_or_else(help);
        let address = address.map(|address| {
            let bare = address.strip_prefix('[').and_then(|address| address.strip_suffix(']'));
            bare.unwrap_or(address).parse().map_err(|_| help())
        });
        Ok(Self { address: address.transpose()?, host: number(host)?, guest: number(guest)?, protocol })
    }
}

impl fmt::Display for Port {
    /// As uhyve reads it.
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

impl Port {
    /// As QEMU's user network reads it.
    fn forward(&self) -> String {
        let protocol = if self.protocol == Protocol::Udp { "udp" } else { "tcp" };
        let address = self.address.map(|address| address.to_string()).unwrap_or_default();
        format!("hostfwd={protocol}:{address}:{}-:{}", self.host, self.guest)
    }
}

/// QEMU's options for a guest's network; none for a guest without one.
///
/// # Errors
///
/// `net` makes no sense to QEMU.
pub(crate) fn qemu(net: Option<&str>, ports: &[Port]) -> Result<Vec<String>, String> {
    let name = match net {
        None if ports.is_empty() => return Ok(Vec::new()),
        Some("none") if ports.is_empty() => return Ok(Vec::new()),
        None | Some("user" | "passt") => {
            let forwards = ports.iter().map(|port| format!(",{}", port.forward()));
            format!("user,id=net{}", forwards.collect::<String>())
        }
        Some(net) => {
            let name = net.strip_prefix("tap=").filter(|name| !name.is_empty() && !name.contains(','));
            let name = name.ok_or_else(|| format!("--net {net}: QEMU's are user, tap=NAME and none"))?;
            if !ports.is_empty() {
                return Err("-p passes ports on by a user network, not by a tap device".to_owned());
            }
            format!("tap,id=net,ifname={name},script=no,downscript=no")
        }
    };
    let device = "virtio-net-pci,disable-legacy=on,netdev=net".to_owned();
    Ok(vec!["-netdev".to_owned(), name, "-device".to_owned(), device])
}

#[cfg(test)]
mod tests {
    use super::{Port, qemu};

    fn port(text: &str) -> Port {
        text.parse().unwrap()
    }

    #[test]
    fn ports_are_read_and_written() {
        for text in ["8080:80", "127.0.0.1:8080:80", "[::1]:8080:80", "53:5353/udp", "127.0.0.1:1:2/udp"] {
            assert_eq!(port(text).to_string(), text);
        }
        assert_eq!(port("1:2/tcp"), port("1:2"));
        for text in ["", "80", ":80", "80:", "0:80", "80:0", "80:65536", "a:1:2", "1:2/sctp", "1:2/", "x:1"] {
            assert!(text.parse::<Port>().unwrap_err().contains("HOST:GUEST"), "{text}");
        }
    }

    #[test]
    fn qemu_gets_what_it_understands() {
        let none: &[String] = &[];
        assert_eq!(qemu(None, &[]).unwrap(), none);
        assert_eq!(qemu(Some("none"), &[]).unwrap(), none);
        let options = qemu(None, &[port("8080:80"), port("127.0.0.1:53:5353/udp")]).unwrap();
        let user = "user,id=net,hostfwd=tcp::8080-:80,hostfwd=udp:127.0.0.1:53-:5353";
        assert_eq!(options[1], user);
        assert_eq!(qemu(Some("tap=tap0"), &[]).unwrap()[1], "tap,id=net,ifname=tap0,script=no,downscript=no");
        for (net, ports) in [
            ("tap=", &[][..]),
            ("tap=a,b", &[]),
            ("x", &[]),
            ("none", &[port("1:2")]),
            ("tap=a", &[port("1:2")]),
        ] {
            assert!(qemu(Some(net), ports).is_err(), "{net}");
        }
    }
}
