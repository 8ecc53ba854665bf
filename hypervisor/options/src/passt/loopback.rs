//! Whether the guest reaches the host's loopback.
//!
//! passt maps the address of the guest's gateway to the loopback of the host unless told otherwise. Closed, a resolver of
//! the host that listens on the loopback only, as that of systemd, needs an address of its own.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Output, Stdio};

use hermit_interface::port_forward::{PortForward, Protocol};

use super::PROGRAM;

/// Key of `--net` that opens the host's loopback to the guest.
pub const HOST_LOOPBACK: &str = "host-loopback";

/// Address at which a guest reaches the host's resolver on the loopback: link-local, so that no other host has it.
pub const DNS_FORWARD: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1));

/// passt's arguments for the host's loopback. With `has_dns_forward`, [`DNS_FORWARD`] is the host's resolver.
#[must_use]
pub fn arguments(host_loopback: bool, has_dns_forward: bool) -> Vec<String> {
    let mut arguments = Vec::new();
    if !host_loopback {
        arguments.push("--no-map-gw".to_owned());
    }
    if has_dns_forward {
        arguments.extend(["--dns-forward".to_owned(), DNS_FORWARD.to_string()]);
    }
    arguments
}

/// The note about forwarded UDP ports that are useless for clients on this host: before August 2024, passt sent no answers to
/// the host's own clients while its loopback is closed.
#[must_use]
pub fn udp_note(forwards: &[PortForward], host_loopback: bool) -> Option<&'static str> {
    let has_udp = forwards.iter().any(|forward| forward.protocol == Protocol::Udp);
    (has_udp && !host_loopback && !is_udp_tracked()).then_some(
        "note: this version of passt answers other hosts at the UDP ports of -p, but not this host: a newer version does, or \
         add host-loopback to --net",
    )
}

/// Whether passt tracks UDP flows, as it does since it has this option.
fn is_udp_tracked() -> bool {
    let output = Command::new(PROGRAM).arg("--help").stdin(Stdio::null()).output();
    // The stream differs by version.
    output.is_ok_and(|Output { stdout, stderr, .. }| {
        [stdout, stderr].iter().any(|text| String::from_utf8_lossy(text).contains("--map-host-loopback"))
    })
}

/// Whether all DNS servers of the host, at least one, are on its loopback, where guests do not reach them.
#[must_use]
pub fn is_resolver_on_loopback() -> bool {
    has_only_loopback_servers(&fs::read_to_string("/etc/resolv.conf").unwrap_or_default())
}

/// Whether the text of a resolv.conf(5) has servers, all of them on the loopback.
fn has_only_loopback_servers(text: &str) -> bool {
    let server = |line: &str| match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
        ["nameserver", address, ..] => address.parse::<IpAddr>().ok(),
        _ => None,
    };
    let mut servers = text.lines().filter_map(server).peekable();
    servers.peek().is_some() && servers.all(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{arguments, has_only_loopback_servers, udp_note};

    #[test]
    fn loopback_is_closed_unless_asked_for() {
        assert_eq!(arguments(false, false), ["--no-map-gw"]);
        assert_eq!(arguments(false, true), ["--no-map-gw", "--dns-forward", "169.254.1.1"]);
        assert!(arguments(true, false).is_empty());
    }

    #[test]
    fn note_about_udp_needs_a_udp_port_and_a_closed_loopback() {
        let forwards = |text: &str| [text.parse().unwrap()];
        assert_eq!(udp_note(&[], false), None);
        assert_eq!(udp_note(&forwards("53:53"), false), None);
        assert_eq!(udp_note(&forwards("53:53/udp"), true), None);
    }

    #[test]
    fn resolver_on_the_loopback_is_recognised() {
        for text in [
            "nameserver 127.0.0.53\noptions edns0\n",
            "nameserver\t::1\n# nameserver 1.1.1.1\nnameserver 127.0.0.1",
        ] {
            assert!(has_only_loopback_servers(text), "{text}");
        }
        for text in
            ["", "search example.org", "nameserver 127.0.0.1\nnameserver 1.1.1.1", "nameserver fe80::1%eth0"]
        {
            assert!(!has_only_loopback_servers(text), "{text}");
        }
    }
}
