//! Whether the guest reaches the host's loopback.
//!
//! passt maps the address of the guest's gateway to the loopback of the host unless told otherwise. Closed, a resolver of
//! the host that listens on the loopback only, as that of systemd, needs an address of its own. So does one that listens at the
//! address which the guest shares with the host.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Output, Stdio};

use hermit_interface::port_forward::{PortForward, Protocol};

use super::{PROGRAM, without_variables};
use crate::host_network;

/// Key of `--net` that opens the host's loopback to the guest.
pub const HOST_LOOPBACK: &str = "host-loopback";

/// Address at which a guest reaches a resolver that only the host can reach: link-local, so that no other host has it.
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
    let output = without_variables(PROGRAM).arg("--help").stdin(Stdio::null()).output();
    // The stream differs by version.
    output.is_ok_and(|Output { stdout, stderr, .. }| {
        [stdout, stderr].iter().any(|text| String::from_utf8_lossy(text).contains("--map-host-loopback"))
    })
}

/// Whether a guest reaches the host's DNS servers only by [`DNS_FORWARD`]. All of them are on the host's loopback, which is closed
/// unless `host_loopback`, or have an address of the host: the guest has that itself, or it is closed, too.
#[must_use]
pub fn needs_dns_forward(host_loopback: bool) -> bool {
    // Without the addresses, those on the loopback are known.
    let own = host_network::addresses().unwrap_or_default();
    are_out_of_reach(&host_network::nameservers(), &own, host_loopback)
}

/// Whether a guest reaches none of the servers, and passt can forward queries to one: [`DNS_FORWARD`] is an address of IPv4, and so
/// goes to a server of IPv4.
fn are_out_of_reach(servers: &[IpAddr], own: &[IpAddr], host_loopback: bool) -> bool {
    let is_out_of_reach = |server: &IpAddr| match server.is_loopback() {
        true => !host_loopback,
        false => own.contains(server),
    };
    servers.iter().any(IpAddr::is_ipv4) && servers.iter().all(is_out_of_reach)
}

#[cfg(test)]
mod tests {
    use super::{arguments, udp_note};
    use crate::host_network::parse_nameservers;

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
    fn queries_are_forwarded_if_no_server_is_in_reach() {
        let own = ["127.0.0.1", "192.0.2.2", "::1", "fd00::2"].map(|text| text.parse().unwrap());
        let out_of_reach = |text: &str, host_loopback| {
            let servers = parse_nameservers(text);
            super::are_out_of_reach(&servers, &own, host_loopback)
        };
        for (text, is_closed, is_opened) in [
            ("nameserver 127.0.0.53\noptions edns0\n", true, false),
            ("nameserver\t::1\n# nameserver 1.1.1.1\nnameserver 127.0.0.1", true, false),
            ("nameserver 192.0.2.2", true, true),
            ("nameserver 192.0.2.2\nnameserver fd00::2", true, true),
            ("nameserver 192.0.2.2\nnameserver 127.0.0.1", true, false),
            ("nameserver ::1", false, false),
            ("", false, false),
            ("search example.org", false, false),
            ("nameserver 127.0.0.1\nnameserver 1.1.1.1", false, false),
            ("nameserver 192.0.2.1\nnameserver 192.0.2.2", false, false),
            ("nameserver fe80::1%eth0", false, false),
        ] {
            assert_eq!(
                [false, true].map(|opened| out_of_reach(text, opened)),
                [is_closed, is_opened],
                "{text}"
            );
        }
    }
}
