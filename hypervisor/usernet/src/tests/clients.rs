//! Clients of forwarded TCP ports.

use hermit_tcp::Flags;

use super::lab::{GUEST, Lab, Received, SECOND, Sent, answer};
use crate::Readiness;

fn lab() -> Lab {
    Lab::new(|config| config.tcp_ports = vec![80])
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
    // Bytes of the client's wait until the guest has answered.
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
    // A client on the host itself cannot be seen by its address anyway.
    let local = lab.client("[::1]:9999").unwrap();
    assert_eq!(local.from.ip().to_string(), "10.0.2.2");
    assert_ne!(local.from.port(), 9999, "another flow has these ends");
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
