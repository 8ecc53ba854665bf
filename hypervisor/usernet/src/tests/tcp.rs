//! TCP segment by segment.

use std::io::ErrorKind;

use hermit_tcp::Flags;
use smoltcp::wire::{Icmpv4Message, Icmpv4Packet, IpProtocol};

use super::lab::{GUEST, Lab, SECOND, Sent};
use crate::Readiness;

const HERE: &str = "10.0.2.15:4000";
const PEER: &str = "192.0.2.1:80";

fn lab() -> Lab {
    Lab::new(|_| {})
}

#[test]
fn guest_connects_and_both_sides_end() {
    let mut lab = lab();
    let mut guest = lab.connect(HERE, PEER);
    assert_eq!(lab.socket(0, |socket| socket.to), Some(PEER.parse().unwrap()));
    guest.data = b"request".to_vec();
    lab.send(&guest);
    assert_eq!(lab.socket(0, |socket| socket.sent.clone()), b"request");
    // The acknowledgement leaves with the answer.
    assert_eq!(lab.segment(), None);
    lab.arrive(0, b"answer");
    let received = lab.segment().unwrap();
    assert_eq!((&received.data[..], received.ack), (&b"answer"[..], guest.seq + 7));
    lab.hang_up(0);
    let fin = lab.segment().unwrap();
    assert_eq!((fin.flags, fin.seq), (Flags::FIN | Flags::ACK, received.seq.wrapping_add(6)));
    guest = Sent { seq: guest.seq + 7, ack: fin.seq.wrapping_add(1), data: Vec::new(), ..guest };
    lab.send(&Sent { flags: Flags::FIN | Flags::ACK, ..guest.clone() });
    // The flow ends with this acknowledgement. Without it, the guest would repeat its FIN.
    let ack = lab.segment().unwrap();
    assert_eq!((ack.flags, ack.seq, ack.ack), (Flags::ACK, guest.ack, guest.seq + 1));
    assert!(lab.socket(0, |socket| socket.is_shut_down && socket.is_closed && !socket.is_reset));
    // No unread bytes are left, which would reset the peer's connection.
    assert!(lab.socket(0, |socket| socket.received.is_empty()));
    assert_eq!(lab.network.flows(), (0, 0));
}

#[test]
fn acknowledgement_without_an_answer_is_delayed() {
    let mut lab = lab();
    let guest = lab.connect(HERE, PEER);
    lab.send(&Sent { data: b"a".to_vec(), ..guest.clone() });
    lab.send(&Sent { data: b"b".to_vec(), seq: guest.seq + 1, ..guest.clone() });
    assert_eq!(lab.segment(), None);
    let ack = lab.late_segment().unwrap();
    assert_eq!((ack.flags, ack.ack, lab.segment()), (Flags::ACK, guest.seq + 2, None));
    lab.pass(10 * SECOND);
    // An idle network has no timers.
    assert_eq!((lab.segment(), lab.network.deadline()), (None, None));
}

#[test]
fn refused_connection_is_a_reset() {
    let mut lab = lab();
    let syn = Sent { seq: 7, flags: Flags::SYN, ..Sent::new(HERE, PEER) };
    lab.send(&syn);
    lab.socket(0, |socket| socket.error = Some(ErrorKind::ConnectionRefused));
    lab.event(0, Readiness::WRITABLE | Readiness::HANG_UP);
    let reset = lab.segment().unwrap();
    assert_eq!((reset.flags, reset.ack, reset.seq), (Flags::RST | Flags::ACK, 8, 0));
    assert_eq!(lab.network.flows(), (0, 0));
    // The result is the same if connect(2) itself fails.
    lab.host.connect_error = Some(ErrorKind::ConnectionRefused);
    lab.send(&syn);
    assert_eq!(lab.segment().unwrap().flags, Flags::RST | Flags::ACK);
}

#[test]
fn unreachable_host_is_an_icmp_error_that_quotes_the_syn() {
    for (error, is_closed, code) in [
        (ErrorKind::HostUnreachable, false, 1),
        (ErrorKind::NetworkUnreachable, false, 0),
        (ErrorKind::Other, true, 13),
    ] {
        for is_late in [false, true] {
            let mut lab = lab();
            lab.host.is_closed_to_guest = is_closed;
            lab.host.connect_error = (!is_late).then_some(error);
            lab.send(&Sent { seq: 0x0102_0304, flags: Flags::SYN, ..Sent::new(HERE, PEER) });
            if is_late && !is_closed {
                lab.socket(0, |socket| socket.error = Some(error));
                lab.event(0, Readiness::WRITABLE | Readiness::HANG_UP);
            }
            let (from, to, protocol, message) = lab.packet().unwrap();
            assert_eq!((from.to_string(), to.to_string()), ("10.0.2.2".to_owned(), GUEST.to_owned()));
            assert_eq!(protocol, IpProtocol::Icmp);
            let packet = Icmpv4Packet::new_checked(&message[..]).unwrap();
            assert!(packet.verify_checksum());
            assert_eq!((packet.msg_type(), packet.msg_code()), (Icmpv4Message::DstUnreachable, code));
            // The IP header, the ports, and the sequence number.
            let quoted = [10, 0, 2, 15, 192, 0, 2, 1, 0x0f, 0xa0, 0, 80, 1, 2, 3, 4];
            assert_eq!(message[8 + 12..8 + 28], quoted);
        }
    }
}

#[test]
fn segment_of_no_flow_is_reset() {
    let mut lab = lab();
    let stray = Sent { seq: 5, ack: 9, flags: Flags::ACK, data: vec![1; 10], ..Sent::new(HERE, PEER) };
    lab.send(&stray);
    let reset = lab.segment().unwrap();
    assert_eq!((reset.flags, reset.seq), (Flags::RST, 9));
    lab.send(&Sent { flags: Flags::FIN, ..stray.clone() });
    let reset = lab.segment().unwrap();
    assert_eq!((reset.flags, reset.ack), (Flags::RST | Flags::ACK, 16));
    lab.send(&Sent { flags: Flags::RST, ..stray });
    assert_eq!(lab.segment(), None);
    // The gateway itself has no ports.
    lab.send(&Sent { flags: Flags::SYN, ..Sent::new(HERE, "10.0.2.2:80") });
    assert_eq!(lab.segment().unwrap().flags, Flags::RST | Flags::ACK);
}

#[test]
fn unacknowledged_data_is_sent_again() {
    let mut lab = lab();
    let guest = lab.connect(HERE, PEER);
    lab.arrive(0, b"abcdef");
    let first = lab.segment().unwrap();
    lab.send(&Sent { ack: first.seq.wrapping_add(2), ..guest.clone() });
    assert_eq!(lab.segment(), None);
    lab.pass(2 * SECOND);
    let second = lab.segment().unwrap();
    assert_eq!((second.seq, &second.data[..]), (first.seq.wrapping_add(2), &b"cdef"[..]));
    // The guest had received everything; only the acknowledgement was late.
    lab.pass(3 * SECOND);
    lab.send(&Sent { ack: first.seq.wrapping_add(6), ..guest.clone() });
    assert_eq!(lab.segment(), None);
    lab.arrive(0, b"gh");
    let third = lab.segment().unwrap();
    assert_eq!((third.seq, &third.data[..]), (first.seq.wrapping_add(6), &b"gh"[..]));
}

#[test]
fn three_duplicate_acknowledgements_repeat_at_once() {
    let mut lab = lab();
    let guest = lab.connect(HERE, PEER);
    lab.arrive(0, b"abcdef");
    let first = lab.segment().unwrap();
    for _ in 0..3 {
        assert_eq!(lab.segment(), None);
        lab.send(&guest);
    }
    assert_eq!(lab.segment(), Some(first));
}

#[test]
fn fin_is_sent_again_too() {
    let mut lab = lab();
    let guest = lab.connect(HERE, PEER);
    lab.arrive(0, b"end");
    lab.hang_up(0);
    let (data, fin) = (lab.segment().unwrap(), lab.segment().unwrap());
    assert_eq!((&data.data[..], fin.flags), (&b"end"[..], Flags::FIN | Flags::ACK));
    lab.pass(2 * SECOND);
    assert_eq!((lab.segment().unwrap().data, lab.segment().unwrap().seq), (b"end".to_vec(), fin.seq));
    lab.send(&Sent { ack: fin.seq, ..guest.clone() });
    lab.pass(4 * SECOND);
    assert_eq!(lab.segment().unwrap().flags, Flags::FIN | Flags::ACK);
    lab.send(&Sent { ack: fin.seq.wrapping_add(1), ..guest });
    lab.pass(100 * SECOND);
    assert_eq!((lab.segment(), lab.network.flows()), (None, (1, 0)));
}

#[test]
fn window_of_the_guest_is_not_exceeded_and_probed_while_shut() {
    let mut lab = lab();
    let guest = lab.connect(HERE, PEER);
    lab.send(&Sent { window: 1, ..guest.clone() });
    lab.arrive(0, &[7; 1000]);
    let part = lab.segment().unwrap();
    // The window is scaled by 7.
    assert_eq!((part.data.len(), lab.segment()), (128, None));
    let shut = Sent { window: 0, ack: part.seq.wrapping_add(128), ..guest.clone() };
    lab.send(&shut);
    assert_eq!(lab.segment(), None);
    for _ in 0..20 {
        lab.pass(1_000 * SECOND);
        let probe = lab.segment().unwrap();
        assert_eq!((probe.seq, probe.data.len()), (part.seq.wrapping_add(127), 0));
        lab.send(&shut);
        assert_eq!(lab.segment(), None);
    }
    lab.send(&Sent { window: 100, ..shut });
    assert_eq!(lab.segment().unwrap().data.len(), 872);
}

#[test]
fn socket_that_takes_nothing_shuts_the_window() {
    let mut lab = lab();
    lab.host.room = 1_000;
    let guest = lab.connect(HERE, PEER);
    let (mut seq, mut window) = (guest.seq, u32::MAX);
    while window > 0 {
        lab.send(&Sent { seq, data: vec![3; 8_000], ..guest.clone() });
        seq += 8_000;
        while let Some(ack) = lab.late_segment() {
            window = u32::from(ack.window) << 5;
            seq = ack.ack;
        }
        assert!(seq - guest.seq <= (1 << 20) + 1_000);
    }
    assert!(seq - guest.seq > 1 << 20);
    // A probe is answered.
    lab.send(&Sent { seq: seq - 1, ..guest.clone() });
    assert_eq!(lab.segment().unwrap().window, 0);
    // The peer reads: the guest learns of it without asking.
    lab.socket(0, |socket| socket.room = 900_000);
    lab.event(0, Readiness::WRITABLE);
    assert!(u32::from(lab.segment().unwrap().window) << 5 > 800_000);
    lab.send(&Sent { seq, flags: Flags::FIN | Flags::ACK, ..guest });
    assert!(!lab.socket(0, |socket| socket.is_shut_down));
    lab.socket(0, |socket| socket.room = usize::MAX);
    lab.event(0, Readiness::WRITABLE);
    assert!(lab.socket(0, |socket| socket.is_shut_down && socket.sent.len() == 1_000 + (1 << 20)));
}

#[test]
fn reset_of_the_guest_resets_the_peer_and_the_reverse() {
    let mut lab = lab();
    let guest = lab.connect(HERE, PEER);
    // A reset that is not in the window is forged or late.
    lab.send(&Sent { flags: Flags::RST, seq: guest.seq - 1, ..guest.clone() });
    assert_eq!(lab.network.flows(), (1, 0));
    lab.send(&Sent { flags: Flags::RST, ..guest });
    assert!(lab.socket(0, |socket| socket.is_reset) && lab.network.flows() == (0, 0));

    let guest = lab.connect(HERE, PEER);
    lab.socket(1, |socket| socket.error = Some(ErrorKind::ConnectionReset));
    lab.event(1, Readiness::HANG_UP | Readiness::FAILED);
    let reset = lab.segment().unwrap();
    assert_eq!((reset.flags, reset.seq), (Flags::RST | Flags::ACK, guest.ack));
    assert_eq!(lab.network.flows(), (0, 0));
}

#[test]
fn data_out_of_order_is_asked_for_again() {
    let mut lab = lab();
    let guest = lab.connect(HERE, PEER);
    lab.send(&Sent { seq: guest.seq + 5, data: b"world".to_vec(), ..guest.clone() });
    assert_eq!(lab.segment().unwrap().ack, guest.seq);
    // Half of it is old.
    lab.send(&Sent { data: b"hello".to_vec(), ..guest.clone() });
    lab.send(&Sent { seq: guest.seq + 3, data: b"lo world".to_vec(), ..guest.clone() });
    lab.send(&Sent { data: b"hello".to_vec(), ..guest.clone() });
    assert_eq!(lab.segment().unwrap().ack, guest.seq + 11);
    assert_eq!(lab.socket(0, |socket| socket.sent.clone()), b"hello world");
}

#[test]
fn half_closed_flow_goes_on_in_the_other_direction() {
    let mut lab = lab();
    let guest = lab.connect(HERE, PEER);
    lab.send(&Sent { data: b"q".to_vec(), flags: Flags::FIN | Flags::ACK, ..guest.clone() });
    assert_eq!(lab.segment().unwrap().ack, guest.seq + 2);
    assert!(lab.socket(0, |socket| socket.is_shut_down && !socket.is_closed));
    for _ in 0..3 {
        lab.arrive(0, b"a");
        assert_eq!(lab.segment().unwrap().data, b"a");
    }
    let guest = Sent { seq: guest.seq + 2, ack: guest.ack.wrapping_add(3), ..guest };
    lab.send(&guest);
    lab.hang_up(0);
    let fin = lab.segment().unwrap();
    lab.send(&Sent { ack: fin.seq.wrapping_add(1), ..guest });
    assert!(lab.socket(0, |socket| socket.is_closed && !socket.is_reset));
}

#[test]
fn large_segments_have_the_size_of_small_ones() {
    let mut lab = lab();
    lab.connect(HERE, PEER);
    lab.socket(0, |socket| socket.received.extend(vec![1; 40_000]));
    lab.event(0, Readiness::READABLE);
    let (mut head, mut bytes) = (Vec::new(), vec![0; 70_000]);
    let output = lab.network.receive(&mut lab.host, &mut head, &mut &mut bytes[..]).unwrap();
    assert_eq!((output.data, output.offload.segment_size), (40_000, Some(1460)));
    // A guest without large segments.
    lab.network.set_limits(crate::Limits { max_frame: 1_514, has_large_segments: (false, false) });
    lab.arrive(0, &[2; 2_000]);
    let output = lab.network.receive(&mut lab.host, &mut head, &mut &mut bytes[..]).unwrap();
    assert_eq!((output.data, output.offload.segment_size), (1_460, None));
}

#[test]
fn repeated_syn_is_answered_again() {
    let mut lab = lab();
    let syn = Sent { seq: 7, flags: Flags::SYN, ..Sent::new(HERE, PEER) };
    lab.send(&syn);
    lab.send(&syn);
    assert_eq!((lab.segment(), lab.host.sockets.len()), (None, 1));
    lab.event(0, Readiness::WRITABLE);
    let first = lab.segment().unwrap();
    lab.send(&syn);
    assert_eq!(lab.segment(), Some(first));
    // Without window scaling, which the guest does not offer.
    lab.send(&Sent { flags: Flags::RST, ..syn });
    assert_eq!(lab.segment(), None);
}

/// A single byte of a large segment that stays in the socket keeps the memory of the whole segment, so the
/// host's window would stay closed.
#[test]
fn acknowledged_bytes_leave_the_socket_but_few_small_ones() {
    let mut lab = lab();
    let mut guest = lab.connect(HERE, PEER);
    for size in [100_000, 2_049, 5_000] {
        lab.arrive(0, &vec![1; size]);
        while let Some(segment) = lab.segment() {
            guest.ack = segment.seq.wrapping_add(u32::try_from(segment.data.len()).unwrap());
            // Acknowledges all bytes except the last one, and then the last one.
            lab.send(&Sent { ack: guest.ack.wrapping_sub(1), ..guest.clone() });
            lab.send(&guest);
        }
        assert_eq!(lab.socket(0, |socket| socket.received.len()), 0);
    }
    // The guest's window ends 1,024 bytes before the end of a large segment.
    lab.send(&Sent { window: 504, ..guest.clone() });
    lab.arrive(0, &[1; 65_536]);
    guest.ack = guest.ack.wrapping_add(64_512);
    assert_eq!(lab.segment().unwrap().data.len(), 64_512);
    lab.send(&guest);
    guest.ack = guest.ack.wrapping_add(1_024);
    assert_eq!(lab.segment().unwrap().data.len(), 1_024);
    lab.send(&guest);
    assert_eq!(lab.socket(0, |socket| socket.received.len()), 0);
    let mut most = 0;
    for _ in 0..100 {
        lab.arrive(0, &[1; 100]);
        guest.ack = lab.segment().unwrap().seq.wrapping_add(100);
        lab.send(&guest);
        most = most.max(lab.socket(0, |socket| socket.received.len()));
    }
    assert!((1_000..=2_048).contains(&most), "{most}");
}

#[test]
fn peer_that_ends_before_the_guest_is_connected_is_read_to_the_end() {
    let mut lab = lab();
    let syn = Sent { seq: 7, flags: Flags::SYN, ..Sent::new(HERE, PEER) };
    lab.send(&syn);
    lab.socket(0, |socket| {
        socket.received.extend(b"banner");
        socket.has_ended = true;
    });
    // The only event.
    lab.event(0, Readiness::READABLE | Readiness::WRITABLE | Readiness::HANG_UP);
    let answer = lab.segment().unwrap();
    lab.send(&Sent { seq: 8, ack: answer.seq.wrapping_add(1), flags: Flags::ACK, ..syn });
    assert_eq!(lab.segment().unwrap().data, b"banner");
    assert_eq!(lab.segment().unwrap().flags, Flags::FIN | Flags::ACK);
}

#[test]
fn window_that_opens_bit_by_bit_is_announced() {
    let mut lab = lab();
    lab.host.room = 0;
    let guest = lab.connect(HERE, PEER);
    let mut seq = guest.seq;
    for _ in 0..200 {
        lab.send(&Sent { seq, data: vec![1; 8_000], ..guest.clone() });
        while let Some(ack) = lab.late_segment() {
            seq = ack.ack;
        }
    }
    assert_eq!(seq - guest.seq, 1 << 20);
    let mut window = 0;
    for _ in 0..5 {
        lab.socket(0, |socket| socket.room = 200_000);
        lab.event(0, Readiness::WRITABLE);
        window = lab.segment().map_or(window, |ack| u32::from(ack.window) << 5);
    }
    assert!(window >= 1 << 18, "{window}");
}

#[test]
fn delayed_acknowledgement_is_sent_if_there_is_nothing_to_be_read() {
    let mut lab = lab();
    let guest = lab.connect(HERE, PEER);
    // The flow reads from the socket, which is empty.
    lab.event(0, Readiness::READABLE);
    lab.send(&Sent { data: b"request".to_vec(), ..guest.clone() });
    assert_eq!(lab.segment(), None);
    assert_eq!(lab.late_segment().map(|ack| ack.ack), Some(guest.seq + 7));
}

#[test]
fn acknowledgement_that_does_not_answer_the_syn_is_reset() {
    let mut lab = lab();
    let syn = Sent { seq: 7, flags: Flags::SYN, ..Sent::new(HERE, PEER) };
    lab.send(&syn);
    lab.event(0, Readiness::WRITABLE);
    let answer = lab.segment().unwrap();
    let guest = Sent { seq: 8, flags: Flags::ACK, ..syn };
    // More duplicate acknowledgements than cause a retransmission.
    for offset in [0, 0, 0, 0, 2, 1_000] {
        let ack = answer.seq.wrapping_add(offset);
        lab.send(&Sent { ack, ..guest.clone() });
        lab.send(&Sent { ack, data: b"early".to_vec(), ..guest.clone() });
        for _ in 0..2 {
            let reset = lab.segment().unwrap();
            assert_eq!((reset.flags, reset.seq), (Flags::RST, ack));
        }
    }
    assert!(lab.socket(0, |socket| socket.sent.is_empty()));
    lab.pass(SECOND);
    assert_eq!(lab.segment(), Some(answer.clone()));
    lab.send(&Sent { ack: answer.seq.wrapping_add(1), data: b"data".to_vec(), ..guest });
    assert_eq!(lab.socket(0, |socket| socket.sent.clone()), b"data");
}
