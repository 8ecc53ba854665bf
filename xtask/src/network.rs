//! How a guest is connected: `--net` and `-p`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hermit_interface::interface_name::InterfaceName;

/// A port of the host that is passed on to the guest: `[ADDRESS:]HOST:GUEST[/udp]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
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

/// Refuses what makes sense to neither uhyve nor QEMU. What is behind a comma is left to uhyve.
pub fn check(net: Option<&str>, ports: &[Port]) -> Result<(), String> {
    let Some(net) = net else { return Ok(()) };
    let (kind, has_keys) = net.split_once(',').map_or((net, false), |(kind, _)| (kind, true));
    match kind.split_once('=') {
        Some(("tap", name)) => drop(name.parse::<InterfaceName>()?),
        None if kind == "passt" => {}
        None if matches!(kind, "user" | "none") && !has_keys => {}
        None if kind == "user" => return Err(format!("--net {net}: write passt instead of user")),
        None if kind == "none" => return Err("--net: nothing goes with none".to_owned()),
        _ => {
            return Err(format!(
                "--net: `{kind}` is no kind of network: write user, passt, tap=NAME or none"
            ));
        }
    }
    match kind {
        _ if ports.is_empty() => Ok(()),
        "user" | "passt" => Ok(()),
        "none" => Err("-p needs a network: leave --net none away".to_owned()),
        _ => Err("-p goes with --net user: with a tap, the guest has an address of its own".to_owned()),
    }
}

/// QEMU's options for a guest's network; none for a guest without one.
///
/// # Errors
///
/// They make no sense, or only to uhyve.
pub fn qemu(net: Option<&str>, ports: &[Port]) -> Result<Vec<String>, String> {
    const UHYVE: &str = "use --platform kvm or process";
    check(net, ports)?;
    if let Some((_, keys)) = net.and_then(|net| net.split_once(',')) {
        return Err(format!("--net: {keys} is for uhyve, not for QEMU: {UHYVE}"));
    }
    if let Some(port) = ports.iter().find(|port| port.address.is_some_and(|address| address.is_ipv6())) {
        return Err(format!(
            "-p {port}: QEMU takes ports at addresses of IPv4 alone, uhyve at both: {UHYVE}"
        ));
    }
    let cable = match net.map(|net| net.strip_prefix("tap=").ok_or(net)) {
        None if ports.is_empty() => return Ok(Vec::new()),
        Some(Err("none")) => return Ok(Vec::new()),
        // Such a name has no comma, which would begin another option.
        Some(Ok(name)) => format!("tap,id=net,ifname={name},script=no,downscript=no"),
        _ => {
            let forwards = ports.iter().map(|port| format!(",{}", port.forward()));
            format!("user,id=net{}", forwards.collect::<String>())
        }
    };
    let device = "virtio-net-pci,disable-legacy=on,netdev=net".to_owned();
    Ok(vec!["-netdev".to_owned(), cable, "-device".to_owned(), device])
}

#[cfg(test)]
mod tests {
    use super::{Port, check, qemu};

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
        for (net, ports, text) in [
            ("tap=", &[][..], "no name of a network interface"),
            ("tap=sixteen_bytes_xx", &[], "no name of a network interface"),
            ("tap=a/b", &[], "no name of a network interface"),
            ("tap=a,mtu=1500", &[], "mtu=1500 is for uhyve"),
            ("passt,ip=10.0.0.2/24,dns=1.1.1.1", &[], "dns=1.1.1.1 is for uhyve"),
            ("x", &[], "no kind of network"),
            ("none", &[port("1:2")], "leave --net none away"),
            ("tap=a", &[port("1:2")], "-p goes with --net user"),
            ("user", &[port("1:2"), port("[::1]:8080:80")], "-p [::1]:8080:80: QEMU"),
        ] {
            let error = qemu(Some(net), ports).unwrap_err();
            assert!(error.contains(text), "{net}: {error}");
        }
    }

    #[test]
    fn what_uhyve_alone_judges_is_passed_on_to_it() {
        for net in ["none", "user", "passt", "passt,x=1", "tap=tap0", "tap=tap0,ip=10.0.0.2/24"] {
            assert_eq!(check(Some(net), &[]), Ok(()));
        }
        assert_eq!(check(None, &[port("[::1]:8080:80")]), Ok(()));
        for net in ["", "x", "tap", "user,mtu=1500", "none,mtu=1500", "bridge=br0", "passt=1"] {
            assert!(check(Some(net), &[]).is_err(), "{net}");
        }
    }
}
