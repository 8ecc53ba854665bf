//! Clients of forwarded TCP ports.

use std::net::{Ipv4Addr, Ipv6Addr};

use hermit_tcp::Flags;
use smoltcp::wire::{DhcpMessageType, Icmpv6Repr, NdiscNeighborFlags, NdiscRepr};

use super::lab::{GUEST, Lab, Received, SECOND, Sent, answer, udp_frame};
use super::link::{arp, dhcp, icmp_v6};
use crate::Readiness;
use crate::config::GATEWAY_V4;

fn lab() -> Lab {
    Lab::new(|config| {
        config.tcp_ports = vec![80];
        config.hostname = Some("web".into());
        config.search = vec!["a.test".into(), "b".into()];
    })
}

#[test]
fn client_is_connected_to_the_guest() {
    let mut lab = lab();
    let syn = lab.client("198.51.100.7:9999").unwrap();
    assert_eq!((syn.flags, syn.mss, syn.scale), (Flags::SYN, Some(1460), Some(5)));
    assert_eq!(
        (syn.from.to_string(), syn.to.to_string()),
        ("198.51.100.7:9999".into(), format!("{GUEST}:80"))
    );
    // Bytes of the client stay in the socket until the guest has answered the SYN.
    lab.arrive(0, b"hello");
    assert_eq!(lab.segment(), None);
    let guest = answer(&syn);
    lab.send(&guest);
    let data = lab.segment().unwrap();
    assert_eq!((&data.data[..], data.ack), (&b"hello"[..], guest.seq + 1));
    assert_eq!(lab.segment(), None);
}

#[test]
fn guest_that_refuses_resets_the_client() {
    let mut lab = lab();
    let syn = lab.client("198.51.100.7:9999").unwrap();
    lab.send(&Sent { flags: Flags::RST | Flags::ACK, ..answer(&syn) });
    assert!(lab.socket(0, |socket| socket.is_reset));
    assert_eq!(lab.network.flows(), (0, 0));
}

#[test]
fn client_over_ipv6_is_offered_over_ipv4_if_the_guest_refuses() {
    let mut lab = Lab::new(|config| {
        config.tcp_ports = vec![80];
        config.guest_v6 = Some("fd00:10:0:2::15".parse().unwrap());
    });
    let syn = lab.client("[2001:db8::1]:9999").unwrap();
    assert_eq!(syn.from, "[2001:db8::1]:9999".parse().unwrap());
    lab.send(&Sent { flags: Flags::RST | Flags::ACK, ..answer(&syn) });
    let other = lab.segment().unwrap();
    assert_eq!((other.from.to_string(), other.flags), ("10.0.2.2:9999".to_owned(), Flags::SYN));
    assert!(!lab.socket(0, |socket| socket.is_reset));
    lab.send(&answer(&other));
    lab.arrive(0, b"x");
    assert_eq!(lab.segment().unwrap().data, b"x");
    // The guest cannot see a loopback address of the host, so the version of the client's address does not
    // matter.
    let local = lab.client("[::1]:9999").unwrap();
    assert_eq!(local.from.ip().to_string(), "10.0.2.2");
    assert_ne!(local.from.port(), 9999, "another flow has these ends");
}

#[test]
fn client_over_ipv6_is_offered_over_ipv4_once_a_second_if_the_guest_is_silent() {
    let mut lab = Lab::new(|config| {
        config.tcp_ports = vec![80];
        config.guest_v6 = Some("fd00:10:0:2::15".parse().unwrap());
    });
    lab.client("[2001:db8::1]:9999").unwrap();
    let mut syn = None;
    while syn.is_none() {
        lab.pass(SECOND / 2);
        syn = lab.segment().filter(|segment| segment.from.is_ipv4());
    }
    lab.pass(SECOND / 2);
    assert_eq!(lab.segment(), None);
    lab.pass(SECOND / 2);
    assert_eq!(lab.segment(), syn);
}

#[test]
fn clients_wait_in_the_backlog_while_the_guest_does_not_answer() {
    let mut lab = lab();
    for number in 0..200 {
        lab.host.clients[0].push_back(format!("198.51.100.7:{}", 1000 + number).parse().unwrap());
    }
    lab.network.handle_event(&mut lab.host, crate::Event::Listener(0));
    assert_eq!((lab.network.flows().0, lab.host.clients[0].len()), (128, 72));
    let syns: Vec<Received> = std::iter::from_fn(|| lab.segment()).collect();
    assert_eq!(syns.len(), 128);
    syns.iter().for_each(|syn| lab.send(&answer(syn)));
    lab.event(0, Readiness::READABLE);
    assert_eq!((lab.network.flows().0, lab.host.clients[0].len()), (200, 0));
}

#[test]
fn silent_guest_gets_its_syn_again_and_is_given_up() {
    let mut lab = lab();
    lab.client("198.51.100.7:9999").unwrap();
    let mut repeated = 0;
    for _ in 0..2_000 {
        lab.pass(SECOND / 2);
        repeated += u32::from(lab.segment().is_some_and(|segment| segment.flags == Flags::SYN));
    }
    assert_eq!(repeated, 5);
    assert!(lab.socket(0, |socket| socket.is_reset));
    assert_eq!(lab.network.deadline(), None);
}

#[test]
fn waiting_clients_are_accepted_when_the_guest_answers() {
    let mut lab = lab();
    for number in 0..200 {
        lab.host.clients[0].push_back(format!("198.51.100.7:{}", 1000 + number).parse().unwrap());
    }
    lab.network.handle_event(&mut lab.host, crate::Event::Listener(0));
    let syns: Vec<Received> = std::iter::from_fn(|| lab.segment()).collect();
    syns.iter().for_each(|syn| lab.send(&answer(syn)));
    assert_eq!((lab.network.flows().0, lab.host.clients[0].len()), (200, 0));
}

/// Returns the number of SYNs among the frames for the guest.
fn count_syns(lab: &mut Lab) -> usize {
    let frames = std::iter::from_fn(|| lab.frame());
    // The first byte of flags, after the headers of Ethernet and IPv4.
    frames.filter(|frame| frame.get(23) == Some(&6) && frame[47] == Flags::SYN.bits()).count()
}

/// Sends a frame that a guest sends when it starts.
type Sign = fn(&mut Lab);

const SIGNS: [Sign; 5] = [
    |lab| {
        let guest: Ipv4Addr = GUEST.parse().unwrap();
        dhcp(lab, DhcpMessageType::Request, Some(guest)).unwrap();
    },
    |lab| lab.send_frame(&arp(GATEWAY_V4, GUEST.parse().unwrap())),
    |lab| {
        let solicit = Icmpv6Repr::Ndisc(NdiscRepr::RouterSolicit { lladdr: None });
        icmp_v6(lab, Ipv6Addr::UNSPECIFIED, "ff02::2".parse().unwrap(), &solicit);
    },
    |lab| {
        let own: Ipv6Addr = "fe80::15".parse().unwrap();
        let flags = NdiscNeighborFlags::OVERRIDE;
        let advert = NdiscRepr::NeighborAdvert { flags, target_addr: own, lladdr: None };
        icmp_v6(lab, own, "ff02::1".parse().unwrap(), &Icmpv6Repr::Ndisc(advert));
    },
    |lab| lab.send_frame(&udp_frame("10.0.2.15:4000", "192.0.2.1:53", b"x")),
];

#[test]
fn client_of_a_guest_that_starts_does_not_wait_for_the_next_repetition() {
    for sign in SIGNS {
        let mut lab = lab();
        lab.client("198.51.100.7:9999").unwrap();
        lab.client("198.51.100.7:9998").unwrap();
        assert_eq!(count_syns(&mut lab), 0);
        sign(&mut lab);
        assert_eq!(count_syns(&mut lab), 2);
        // A guest sets its address a moment after the DHCPACK, so the SYNs are repeated with growing delays.
        for delay in [1, 2, 4, 8, 16, 32, 64] {
            lab.pass(delay * 1_000_000 - 1);
            assert_eq!(count_syns(&mut lab), 0);
            lab.pass(1);
            assert_eq!(count_syns(&mut lab), 2);
        }
        // The same sign counts only once.
        sign(&mut lab);
        assert_eq!(count_syns(&mut lab), 0);
        // The retransmission timers still run.
        lab.pass(2 * SECOND);
        assert_eq!(count_syns(&mut lab), 2);
    }
}

#[test]
fn probe_of_an_address_is_no_sign_of_a_guest_that_has_one() {
    let mut lab = lab();
    lab.client("198.51.100.7:9999").unwrap();
    lab.send_frame(&arp(GUEST.parse().unwrap(), Ipv4Addr::UNSPECIFIED));
    dhcp(&mut lab, DhcpMessageType::Discover, None).unwrap();
    assert_eq!(count_syns(&mut lab), 0);
}

#[test]
fn wrong_acknowledgement_of_a_syn_is_reset() {
    let mut lab = lab();
    // Sent before the client connects: otherwise the first packet would repeat the SYN.
    lab.send_frame(&udp_frame("10.0.2.15:4000", "192.0.2.1:53", b"x"));
    let syn = lab.client("198.51.100.7:9999").unwrap();
    for flags in [Flags::ACK, Flags::SYN | Flags::ACK, Flags::FIN | Flags::ACK] {
        for offset in [-1, 1, 1_000] {
            let guest = Sent { flags, ..answer(&syn) };
            let ack = guest.ack.wrapping_add_signed(offset);
            lab.send(&Sent { ack, ..guest.clone() });
            let reset = lab.segment().unwrap();
            assert_eq!((reset.flags, reset.seq), (Flags::RST, ack));
            // A reset is not answered with another reset.
            lab.send(&Sent { ack, flags: Flags::RST | Flags::ACK, ..guest });
            assert_eq!(lab.segment(), None);
        }
    }
    // The guest may still accept the client.
    lab.send(&answer(&syn));
    lab.arrive(0, b"x");
    assert_eq!(lab.segment().unwrap().data, b"x");
}
