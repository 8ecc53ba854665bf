//! Filter that decides which frames of a guest may leave.
//!
//! On a tap, frames leave uhyve as the guest has made them, so the egress policy is applied to packets. A
//! packet to an open address passes. A packet to a closed address passes if it opens no connection there: a
//! TCP segment other than the first SYN, an ICMP reply or error, a DHCP request, or a datagram to a peer that
//! has already sent a datagram to the guest. Queries to the guest's DNS servers pass, too. So a guest whose
//! egress is closed can still serve clients. `answers` remembers the peers of datagrams; for TCP the filter
//! needs no state.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use super::answers::{Answers, Peer};
use super::headers::{Content, Frame, Packet, parse};
use crate::devices::warn_once::WarnOnce;
use hermit_options::egress::EgressPolicy;

/// Maximum number of closed addresses about which the filter warns.
const MAX_WARNINGS: usize = 8;

/// Port of DNS servers.
const DNS: u16 = 53;

/// Ports of DHCP clients and servers (RFC 2131 §4.1), and of DHCPv6 (RFC 9915 §7.2).
const DHCP: (u16, u16) = (68, 67);
const DHCP_V6: (u16, u16) = (546, 547);

/// All DHCPv6 relay agents and servers (RFC 9915 §7.1).
const DHCP_V6_SERVERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);

/// Applies a policy to frames.
#[derive(Debug)]
pub struct EgressFilter {
    policy: EgressPolicy,
    answers: Answers,
    /// Closed addresses about which the filter has warned.
    warned: Vec<IpAddr>,
    malformed: WarnOnce,
}

impl EgressFilter {
    /// Creates a filter that applies `policy`.
    #[must_use]
    pub fn new(policy: EgressPolicy) -> Self {
        Self { policy, answers: Answers::default(), warned: Vec::new(), malformed: WarnOnce::default() }
    }

    /// Decides about a frame of the guest. `frame` may be only the front of the frame. If the frame may
    /// leave, returns the number of bytes at its beginning on which the decision is based. The caller must
    /// send exactly these bytes, even if the guest changes its memory meanwhile. If the frame must be
    /// dropped, returns `None`, and logs a warning unless there were too many.
    pub fn admit(&mut self, frame: &[u8], now: impl FnOnce() -> Instant) -> Option<usize> {
        let packet = match parse(frame) {
            Some(Frame::Arp) => return Some(0),
            Some(Frame::Ip(packet)) => packet,
            None => {
                self.malformed.warn(format_args!(
                    "network: a frame of the guest's is dropped: it is no complete packet of IP or ARP, or has a VLAN tag or a route"
                ));
                return None;
            }
        };
        if self.policy.is_open(packet.destination) || self.opens_nothing(&packet, now) {
            return Some(packet.end);
        }
        self.warn(packet.destination);
        None
    }

    /// Returns true if a packet may leave although its destination is closed: it opens no connection, or is a
    /// query to a DNS server of the guest.
    fn opens_nothing(&mut self, packet: &Packet, now: impl FnOnce() -> Instant) -> bool {
        let Packet { destination: address, content, .. } = *packet;
        match content {
            Content::IcmpAnswer | Content::Tcp { opens: false, .. } => true,
            Content::Tcp { destination, .. } => destination == DNS && self.policy.is_nameserver(address),
            Content::Udp { source, destination } => {
                is_dhcp(address, (source, destination))
                    || destination == DNS && self.policy.is_nameserver(address)
                    || self.answers.contains(Peer { address, port: destination, guest: source }, now())
            }
            Content::Other => false,
        }
    }

    /// Remembers the sender of a datagram to the guest, so that the guest may answer.
    pub fn note(&mut self, frame: &[u8], now: impl FnOnce() -> Instant) {
        let Some(Frame::Ip(Packet { source: address, content, .. })) = parse(frame) else { return };
        let Content::Udp { source, destination } = content else { return };
        if !self.policy.is_open(address) {
            self.answers.insert(Peer { address, port: source, guest: destination }, now());
        }
    }

    /// Warns about a closed address: once for each address, and only for the first [`MAX_WARNINGS`]
    /// addresses, so that a guest cannot fill the host's log.
    fn warn(&mut self, address: IpAddr) {
        if !is_worth_a_warning(&mut self.warned, address) {
            return;
        }
        let canonical = address.to_canonical();
        log::warn!(
            "network: packets to {canonical} are dropped: with ,allow={canonical} after --net the guest may connect there"
        );
    }
}

/// Adds `address` to the addresses with a warning, and returns true. Returns false if the address is among
/// them, or if there are [`MAX_WARNINGS`] already.
pub(in crate::devices::net) fn is_worth_a_warning(warned: &mut Vec<IpAddr>, address: IpAddr) -> bool {
    let is_new = warned.len() < MAX_WARNINGS && !warned.contains(&address);
    if is_new {
        warned.push(address);
    }
    is_new
}

/// Returns true if a datagram to this address and these ports is a DHCP request.
fn is_dhcp(address: IpAddr, ports: (u16, u16)) -> bool {
    match address {
        IpAddr::V4(address) => address == Ipv4Addr::BROADCAST && ports == DHCP,
        IpAddr::V6(address) => address == DHCP_V6_SERVERS && ports == DHCP_V6,
    }
}

#[cfg(test)]
mod tests {
    use super::{EgressFilter, MAX_WARNINGS};
    use crate::devices::net::egress::test_frames::{ECHO, SYN, SYN_ACK, from, tcp, udp, v4, v6};
    use hermit_options::egress::{EgressOptions, EgressPolicy, HostNetwork};
    use std::time::{Duration, Instant};

    const CLOSED_V4: &str = "169.254.169.254";
    const CLOSED_V6: &str = "fe80::1";

    fn filter(is_closed: bool, nameservers: &[&str]) -> EgressFilter {
        let mut options = EgressOptions::default();
        if is_closed {
            options.close().unwrap();
        }
        let nameservers = nameservers.iter().map(|text| text.parse().unwrap()).collect();
        EgressFilter::new(EgressPolicy::of_sockets(
            &options,
            &HostNetwork { nameservers, ..HostNetwork::default() },
        ))
    }

    fn admits(filter: &mut EgressFilter, frame: &[u8]) -> bool {
        filter.admit(frame, Instant::now).is_some()
    }

    #[test]
    fn only_what_opens_nothing_leaves_for_a_closed_address() {
        let mut filter = filter(false, &[]);
        for (destination, is_open) in [("8.8.8.8", true), (CLOSED_V4, false)] {
            for (protocol, payload, opens) in [
                (6, &tcp(80, SYN)[..], true),
                (6, &tcp(80, SYN | 0xc0), true),
                (6, &tcp(80, SYN_ACK), false),
                (6, &tcp(80, 0x10), false),
                (6, &tcp(80, 4), false),
                (17, &udp(9, 53), true),
                (17, &udp(68, 67), true),
                (1, &ECHO, true),
                (1, &[0; 8], false),
                (1, &[3; 8], false),
                (2, &[0x16; 8], true),
                (132, &[0; 12], true),
            ] {
                let frame = v4(destination, protocol, payload);
                assert_eq!(
                    admits(&mut filter, &frame),
                    is_open || !opens,
                    "{destination} {protocol} {payload:?}"
                );
            }
        }
        for (destination, is_open) in [("2001:db8::1", true), (CLOSED_V6, false)] {
            for (protocol, payload, opens) in [
                (6, &tcp(80, SYN)[..], true),
                (6, &tcp(80, SYN_ACK), false),
                (17, &udp(9, 53), true),
                (58, &[128; 8], true),
                (58, &[129; 8], false),
                (58, &[1; 8], false),
                (58, &[135; 24], false),
                (58, &[136; 24], false),
                (58, &[134; 24], true),
                (58, &[137; 40], true),
                (59, &[], true),
            ] {
                let frame = v6(destination, protocol, payload);
                assert_eq!(
                    admits(&mut filter, &frame),
                    is_open || !opens,
                    "{destination} {protocol} {payload:?}"
                );
            }
        }
    }

    #[test]
    fn network_is_configured_without_egress() {
        let mut filter = filter(true, &[]);
        let mut arp = v4("10.0.0.1", 6, &tcp(80, SYN));
        arp[13] = 6;
        for frame in [
            arp,
            v4("255.255.255.255", 17, &udp(68, 67)),
            v6("ff02::1:2", 17, &udp(546, 547)),
            v6("ff02::2", 58, &[133; 8]),
            v6("ff02::1:ff00:1", 58, &[135; 24]),
            v6("ff02::16", 58, &[143; 20]),
        ] {
            assert!(admits(&mut filter, &frame), "{frame:?}");
        }
        for frame in [
            v4("10.0.0.1", 17, &udp(68, 67)),
            v4("255.255.255.255", 17, &udp(68, 69)),
            v6("ff02::1:2", 17, &udp(546, 53)),
            v6("ff02::fb", 17, &udp(5353, 5353)),
            v4("8.8.8.8", 6, &tcp(443, SYN)),
        ] {
            assert!(!admits(&mut filter, &frame), "{frame:?}");
        }
    }

    #[test]
    fn nameserver_is_asked_at_its_port_only() {
        let mut filter = filter(true, &["10.0.0.53", "fd00::53"]);
        for frame in [
            v4("10.0.0.53", 17, &udp(9, 53)),
            v4("10.0.0.53", 6, &tcp(53, SYN)),
            v6("fd00::53", 17, &udp(9, 53)),
            v6("fd00::53", 6, &tcp(53, SYN)),
        ] {
            assert!(admits(&mut filter, &frame), "{frame:?}");
        }
        for frame in [
            v4("10.0.0.53", 17, &udp(53, 54)),
            v4("10.0.0.53", 6, &tcp(80, SYN)),
            v4("10.0.0.53", 1, &ECHO),
            v4("10.0.0.54", 17, &udp(9, 53)),
            v6("fd00::53", 6, &tcp(22, SYN)),
        ] {
            assert!(!admits(&mut filter, &frame), "{frame:?}");
        }
    }

    #[test]
    fn datagram_may_be_answered_for_a_while() {
        for (closed, frame) in [
            (CLOSED_V4, v4 as fn(&str, u8, &[u8]) -> Vec<u8>),
            (CLOSED_V6, v6 as fn(&str, u8, &[u8]) -> Vec<u8>),
        ] {
            let (mut filter, start) = (filter(false, &[]), Instant::now());
            let answer = frame(closed, 17, &udp(53, 4000));
            assert_eq!(filter.admit(&answer, || start), None);
            filter.note(&from(&frame(closed, 17, &udp(4000, 53))), || start);
            assert!(filter.admit(&answer, || start).is_some());
            for other in [udp(53, 4001), udp(54, 4000), udp(4000, 53)] {
                assert_eq!(filter.admit(&frame(closed, 17, &other), || start), None);
            }
            assert_eq!(filter.admit(&frame(closed, 6, &tcp(4000, SYN)), || start), None);
            assert_eq!(filter.admit(&answer, || start + Duration::from_secs(600)), None);
        }
        // Peers at open addresses are not remembered, because the guest may send to them anyway.
        let mut filter = filter(false, &[]);
        filter.note(&from(&v4("8.8.8.8", 17, &udp(4000, 53))), || unreachable!());
        filter.note(&from(&v4(CLOSED_V4, 6, &tcp(80, SYN))), || unreachable!());
    }

    #[test]
    fn fragments_leave_for_open_addresses_only() {
        let mut filter = filter(false, &[]);
        for (field, is_fragment) in [(0x4000_u16, false), (0x2000, true), (185, true)] {
            for (destination, is_open) in [("8.8.8.8", true), (CLOSED_V4, false)] {
                let mut frame = v4(destination, 6, &tcp(80, SYN_ACK));
                frame[20..22].copy_from_slice(&field.to_be_bytes());
                assert_eq!(admits(&mut filter, &frame), is_open || !is_fragment);
            }
        }
    }

    #[test]
    fn warnings_are_bounded() {
        let mut filter = filter(true, &[]);
        for number in 0..100 {
            admits(&mut filter, &v4(&format!("10.0.0.{}", number / 2), 1, &ECHO));
        }
        assert_eq!(filter.warned.len(), MAX_WARNINGS);
        assert_eq!(filter.warned[1], "10.0.0.1".parse::<std::net::IpAddr>().unwrap());
    }
}
