//! Packet scripts for two guarantees of this end: there is memory for every byte within the advertised
//! window, and no connection lasts forever, unless its program wants that.

use super::network::{Network, Path};
use super::rfcs::ACCEPTED;
use super::script::Script;
use crate::rtt::SECOND;

/// RFC 9293 §3.8.6: a window that is not a multiple of the scale's unit is rounded down when there is no more
/// room, so that the peer finally gets a zero window. RFC 7323 §2.4: bytes within the earlier window are
/// accepted even so.
#[test]
fn advertised_window_is_stored_whatever_the_scale() {
    Script::new().with(|parameters| parameters.receive_buffer = (4000, 8_000_000)).run(
        "
        0 < S 0:1 win 64000 mss 1000 wscale 0 sackok
        0 > SA 0:1 ack 1 win 4000 mss 1000 wscale 7 sackok
        100 < A 1:1001 ack 1
        100 > A 1:1 ack 1001 win 23
        100 < A 1001:2001 ack 1
        100 > A 1:1 ack 2001 win 15
        100 < A 2001:3001 ack 1
        100 > A 1:1 ack 3001 win 7
        100 < A 3001:3897 ack 1
        140 > A 1:1 ack 3897 win 0
        200 < A 3897:4001 ack 1
        240 > A 1:1 ack 4001 win 0
        300 < A 4001:4002 ack 1
        300 > A 1:1 ack 4001 win 0
        400 read 4000
        400 > A 1:1 ack 4001 win 125
        ",
    );
}

/// RFC 9293 §3.8.6.1: a reader may pause for any time. The buffer is not a multiple of the window scale's
/// unit.
#[test]
fn reader_that_pauses_for_hours_keeps_its_connection() {
    const PAUSE: u64 = 5 * 3600 * SECOND;
    let total = if cfg!(miri) { 40_000 } else { 1_000_000 };
    for size in [9_001, 30_011, 77_777] {
        let change = |parameters: &mut crate::Parameters| parameters.receive_buffer = (size, 4 << 20);
        let mut network = Network::with(3, [Path::IDEAL; 2], [total, 0], change);
        network.ends[1].reads_from = PAUSE;
        assert!(network.run(PAUSE + 600 * SECOND), "{size}: {}", network.ends[1].received);
    }
}

/// Linux: without memory for data that is next in order, the window is shut, so that the peer probes it
/// instead of giving up.
#[test]
fn window_is_shut_without_memory() {
    // Received data may use seven eighths of the memory: 7 chunks of 4096 bytes.
    Script::new().with_memory(8 << 12).run(ACCEPTED).run(
        "
        100 < A 1:28673 ack 1
        100 > A 1:1 ack 28673 win 35328
        110 < A 28673:29673 ack 1
        110 > A 1:1 ack 28673 win 0
        300 < A 28673:29673 ack 1
        300 > A 1:1 ack 28673 win 0
        400 read 28672
        400 > A 1:1 ack 28673 win 64000
        500 < A 28673:29673 ack 1
        500 > A 1:1 ack 29673 win 63000
        ",
    );
}

/// RFC 2018 §4: SACK blocks are ranges of received data. Retransmissions are whole segments, independently of
/// the blocks.
#[test]
fn retransmissions_are_whole_segments() {
    Script::new().run(ACCEPTED).run(
        "
        100 write 5000
        100 > A 1:1001
        100 > A 1001:2001
        100 > A 2001:3001
        100 > A 3001:4001
        100 > A 4001:5001
        200 < A 1:1 ack 1 win 64000 sack 1500-1501
        200 < A 1:1 ack 1 win 64000 sack 1500-5001
        200 > A 1:1001
        200 > A 1001:2001
        300 < A 1:1 ack 5001 win 64000
        ",
    );
}

/// RFC 2018 §8: a peer may drop data that it has selectively acknowledged. The data is sent again after a
/// timeout.
#[test]
fn data_that_the_peer_has_dropped_is_sent_again() {
    Script::new().run(ACCEPTED).run(
        "
        100 write 4000
        100 > A 1:1001
        100 > A 1001:2001
        100 > A 2001:3001
        100 > A 3001:4001
        200 < A 1:1 ack 1 win 64000 sack 1001-4001
        200 > A 1:1001
        300 < A 1:1 ack 1001 win 64000
        600 > A 1001:2001
        700 < A 1:1 ack 2001 win 64000
        700 > A 2001:3001
        700 > A 3001:4001
        ",
    );
}

/// The peer has shut its window, 500 bytes wait, and each probe is answered.
const SHUT: &str = "
    100 write 1000
    100 > A 1:1001
    200 < A 1:1 ack 1001 win 0
    200 write 500
";

/// Linux's `tcp_orphan_retries`: a peer may keep its window shut forever only while the connection has an
/// owner.
#[test]
fn orphan_with_a_shut_window_is_given_up() {
    Script::new().run(ACCEPTED).run(SHUT).run(
        "
        200 close
        200 orphan
        500 > A 1000:1001
        550 < A 1:1 ack 1001 win 0
        1100 > A 1000:1001
        1150 < A 1:1 ack 1001 win 0
        2300 > A 1000:1001
        2350 < A 1:1 ack 1001 win 0
        4700 > A 1000:1001
        4750 < A 1:1 ack 1001 win 0
        9500 > A 1000:1001
        9550 < A 1:1 ack 1001 win 0
        19100 > A 1000:1001
        19150 < A 1:1 ack 1001 win 0
        38300 > A 1000:1001
        38350 < A 1:1 ack 1001 win 0
        76700 > A 1000:1001
        76750 < A 1:1 ack 1001 win 0
        153500 > A 1000:1001
        153550 < A 1:1 ack 1001 win 0
        204500 > RA 1001:1001
        204500 state Closed
        ",
    );
}

/// An orphan is kept while its data is acknowledged. Its time in FIN-WAIT-2 (RFC 9293 §3.6, Linux's
/// `tcp_fin_timeout`) begins with this state.
#[test]
fn orphan_that_makes_progress_is_kept() {
    Script::new().run(ACCEPTED).run(SHUT).run(
        "
        200 close
        200 orphan
        500 > A 1000:1001
        1100 > A 1000:1001
        2300 > A 1000:1001
        4700 > A 1000:1001
        9500 > A 1000:1001
        19100 > A 1000:1001
        38300 > A 1000:1001
        76700 > A 1000:1001
        100000 < A 1:1 ack 1001 win 500
        100000 > A 1001:1501
        100100 < A 1:1 ack 1501 win 1000
        100100 > FA 1501:1502
        100200 < A 1:1 ack 1502 win 1000
        160199 state FinWait2
        160200 state Closed
        ",
    );
}

/// RFC 9293 §3.8.3, RFC 5482: the owner's limit also applies while the window is shut, as in Linux's
/// `tcp_probe_timer`.
#[test]
fn user_timeout_counts_while_the_window_is_shut() {
    Script::new().run(ACCEPTED).run("100 usertimeout 3000").run(SHUT).run(
        "
        500 > A 1000:1001
        550 < A 1:1 ack 1001 win 0
        1100 > A 1000:1001
        1150 < A 1:1 ack 1001 win 0
        2300 > A 1000:1001
        2350 < A 1:1 ack 1001 win 0
        3500 > RA 1001:1001
        3500 state Closed
        ",
    );
}

/// Linux's `tcp_out_of_resources`: an orphan that waits for its peer is given up when other connections need
/// its memory.
#[test]
fn orphan_that_waits_gives_its_memory_to_others() {
    Script::new().with_memory(8192).run(
        "
        0 < S 0:1 win 64000 mss 1000 wscale 0 sackok
        0 > SA 0:1 ack 1 mss 1000 wscale 0 sackok
        100 < A 1:1 ack 1 win 0
        100 write 8192
        100 close
        100 orphan
        400 > RA 1:1 ack 1
        400 state Closed
        ",
    );
}

/// RFC 2018 §8: data after a gap is dropped when the gap has lasted longer than any retransmission timeout,
/// and other connections need the memory.
#[test]
fn data_behind_an_old_gap_gives_its_memory_to_others() {
    let script = "
        100 < A 1001:16385 ack 1
        100 > A 1:1 ack 1 sack 1001-16385
        200000 < A 30001:30002 ack 1
    ";
    let answer = "200000 > A 1:1 ack 1 sack 30001-30002";
    // Four of the eight chunks may hold data after gaps.
    Script::new().with_memory(8 << 12).run(ACCEPTED).run(&std::format!("{script}\n{answer}"));
    Script::new().run(ACCEPTED).run(&std::format!("{script}\n{answer} 1001-16385"));
}

/// RFC 9293 §3.8.4, RFC 5961 §5.2: only a segment with numbers of this connection is a sign of life.
#[test]
fn forged_segments_do_not_keep_a_dead_connection_alive() {
    Script::new().run(ACCEPTED).run(
        "
        100 keepalive 10000 1000 1
        5000 < A 90000:90010 ack 1
        5000 > A 1:1 ack 1
        7000 < A 1:1 ack 5000
        7000 > A 1:1 ack 1
        9000 < S 1:2
        9000 > A 1:1 ack 1
        10100 > A 0:0 ack 1
        10500 < A 90000:90010 ack 1
        10500 > A 1:1 ack 1
        11100 > RA 1:1 ack 1
        11100 state Closed
        ",
    );
}

/// RFC 7323 §4.3, RFC 5961 §5.2: the timestamp of a segment with an unacceptable acknowledgement is not
/// stored.
#[test]
fn timestamp_of_a_forged_segment_is_not_taken_over() {
    Script::new().run(
        "
        0 < S 0:1 win 64000 mss 1000 sackok ts 5000 0
        0 > SA 0:1 ack 1 mss 1000 sackok ts 0 5000
        50 < A 1:1 ack 1 win 64000 ts 5050 0
        60 < A 1:11 ack 5000 ts 2147418198 0
        60 > A 1:1 ack 1 ts 60 5050
        70 < A 1:11 ack 1 ts 5070 60
        110 > A 1:1 ack 11 ts 110 5070
        ",
    );
}

/// RFC 5927 §4.1: an ICMP message about the SYN quotes the number of the SYN, and a message about the SYN-ACK
/// quotes that of the SYN-ACK.
#[test]
fn only_a_sent_syn_is_in_flight_before_the_handshake() {
    let mut script = Script::new().run("0 hold\n 0 connect");
    let is_in_flight = |script: &mut Script, offset| {
        let connection = script.connection.as_ref().unwrap();
        connection.is_in_flight(script.iss() + offset)
    };
    assert!(!is_in_flight(&mut script, 0));
    script = script.run("0 resume\n 0 > S 0:1 mss 1000 wscale 0 sackok");
    assert!(is_in_flight(&mut script, 0) && !is_in_flight(&mut script, 1));
    script = script.run("10 < SA 0:1 ack 1 win 64000 mss 1000\n 10 > A 1:1 ack 1");
    assert!(!is_in_flight(&mut script, 0) && !is_in_flight(&mut script, 1));
    script = script.run("10 write 10\n 10 > A 1:11 ack 1");
    assert!(is_in_flight(&mut script, 1) && !is_in_flight(&mut script, 11));
}

/// RFC 1191 §6.3: the path MTU that a router reports about the SYN also limits the segments with data.
#[test]
fn path_mtu_of_the_syn_counts_for_data() {
    let mut script = Script::new().run("0 connect\n 0 > S 0:1 mss 1000 wscale 0 sackok");
    script.connection.as_mut().unwrap().reduce_mss(600);
    script = script.run("10 < SA 0:1 ack 1 win 64000 mss 1000\n 10 > A 1:1 ack 1");
    assert_eq!(script.connection.as_ref().unwrap().data_mss(), 600);
}
