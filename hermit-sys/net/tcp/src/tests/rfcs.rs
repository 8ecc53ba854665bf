//! Packet scripts for the beginning and the end of connections, acknowledgements, windows and attacks.

use super::script::Script;

/// The peer begins; both have all options but timestamps.
pub(super) const ACCEPTED: &str = "
    0 < S 0:1 win 64000 mss 1000 wscale 0 sackok
    0 > SA 0:1 ack 1 mss 1000 wscale 0 sackok
    100 < A 1:1 ack 1 win 64000
    100 state Established
";

/// The same without options.
pub(super) const ACCEPTED_PLAIN: &str = "
    0 < S 0:1 win 64000 mss 1000
    0 > SA 0:1 ack 1 mss 1000
    100 < A 1:1 ack 1 win 64000
";

/// RFC 9293 §3.5, RFC 7323 §2, §3.
#[test]
fn handshake_agrees_on_options() {
    Script::new().with(|parameters| parameters.receive_buffer = (64_000, 1 << 20)).run(
        "
        0 connect
        0 > S 0:1 mss 1000 wscale 5 sackok ts 0 0
        50 < SA 0:1 ack 1 win 1000 mss 500 wscale 7 sackok ts 900 0
        50 > A 1:1 ack 1 win 2000 ts 50 900
        50 write 488
        50 > A 1:489 ack 1 ts 50 900
        ",
    );
    Script::new().run(ACCEPTED_PLAIN).run("100 write 1000\n 100 > A 1:1001 ack 1");
}

/// RFC 9293 §3.7.1: a SYN without the MSS option, over IPv4 and IPv6.
#[test]
fn peer_without_mss_option_has_the_default() {
    for mss in [536, 800] {
        let script = std::format!(
            "
            0 < S 0:1 win 64000
            0 > SA 0:1 ack 1 mss 1000
            100 < A 1:1 ack 1 win 64000
            100 write {mss}
            100 > A 1:{}
            110 write {mss}
            110 > A {}:{}
            ",
            1 + mss,
            1 + mss,
            1 + 2 * mss
        );
        Script::new().with(|parameters| parameters.default_mss = mss).run(&script);
    }
}

/// RFC 6298 §2.1, §5.5; Linux's six retransmissions.
#[test]
fn syn_is_retransmitted_with_backoff() {
    Script::new().run(
        "
        0 connect
        0 > S 0:1 mss 1000 wscale 0 sackok
        1000 > S 0:1 mss 1000 wscale 0 sackok
        3000 > S 0:1 mss 1000 wscale 0 sackok
        7000 > S 0:1 mss 1000 wscale 0 sackok
        15000 > S 0:1 mss 1000 wscale 0 sackok
        31000 > S 0:1 mss 1000 wscale 0 sackok
        63000 > S 0:1 mss 1000 wscale 0 sackok
        127000 state Closed
        ",
    );
}

/// RFC 9293 §3.5, figure 7.
#[test]
fn both_ends_may_begin_at_once() {
    Script::new().run(
        "
        0 connect
        0 > S 0:1 mss 1000 wscale 0 sackok
        10 < S 0:1 win 64000 mss 1000
        10 > SA 0:1 ack 1 mss 1000
        20 < SA 0:1 ack 1 win 64000 mss 1000
        20 state Established
        20 > A 1:1 ack 1
        ",
    );
}

/// RFC 9293 §3.6.
#[test]
fn connection_is_closed_in_every_order() {
    Script::new().run(ACCEPTED).run(
        "
        100 close
        100 state FinWait1
        100 > FA 1:2 ack 1
        150 < A 1:1 ack 2
        150 state FinWait2
        160 < A 1:11 ack 2
        160 read 10
        170 < FA 11:12 ack 2
        170 > A 2:2 ack 12
        170 state TimeWait
        180 < FA 11:12 ack 2
        180 > A 2:2 ack 12 
        60170 state Closed
        ",
    );
    Script::new().run(ACCEPTED).run(
        "
        100 < FA 1:2 ack 1
        100 > A 1:1 ack 2
        100 state CloseWait
        110 write 5
        110 > A 1:6 ack 2
        110 close
        110 > FA 6:7 ack 2
        110 state LastAck
        150 < A 2:2 ack 7
        150 state Closed
        ",
    );
    Script::new().run(ACCEPTED).run(
        "
        100 close
        100 > FA 1:2 ack 1
        120 < FA 1:2 ack 1
        120 > A 2:2 ack 2
        120 state Closing
        150 < A 2:2 ack 2
        150 state TimeWait
        ",
    );
}

/// RFC 9293 §3.8.6.3, RFC 5681 §4.2.
#[test]
fn acknowledgements_are_delayed_and_every_second_segment_is_acknowledged() {
    Script::new().run(ACCEPTED).run(
        "
        100 < A 1:11 ack 1
        140 > A 1:1 ack 11
        200 < A 11:21 ack 1
        210 write 3
        210 > A 1:4 ack 21
        300 < A 21:521 ack 4
        310 < A 521:1521 ack 4
        310 > A 4:4 ack 1521
        ",
    );
}

/// A device may join segments: what it gives is no segment of that size.
#[test]
fn joined_segments_do_not_raise_the_size_of_two() {
    Script::new().run(
        "
        0 < S 0:1 win 64000 mss 1000 sackok ts 5000 0
        0 > SA 0:1 ack 1 mss 1000 sackok
        10 < A 1:1 ack 1 win 64000 ts 5010 0
        20 < A 1:15809 ack 1 ts 5020 0
        20 > A 1:1 ack 15809
        20 read 15808
        200 < A 15809:16309 ack 1 ts 5200 0
        210 < A 16309:17785 ack 1 ts 5210 0
        210 > A 1:1 ack 17785
        ",
    );
}

/// RFC 2018 §4, RFC 2883 §4, RFC 5681 §4.2.
#[test]
fn gaps_and_duplicates_are_reported_at_once() {
    Script::new().run(ACCEPTED).run(
        "
        100 < A 1001:2001 ack 1
        100 > A 1:1 ack 1 sack 1001-2001
        110 < A 3001:4001 ack 1
        110 > A 1:1 ack 1 sack 3001-4001 1001-2001
        120 < A 1001:2001 ack 1
        120 > A 1:1 ack 1 sack 1001-2001 1001-2001 3001-4001
        130 < A 1:1001 ack 1
        130 > A 1:1 ack 2001 sack 3001-4001
        140 < A 1:1001 ack 1
        140 > A 1:1 ack 2001 sack 1-1001 3001-4001
        150 < A 2001:3001 ack 1
        150 > A 1:1 ack 4001
        ",
    );
}

/// RFC 2018 §4: a gap is reported though there is data to be sent.
#[test]
fn gaps_are_reported_beside_data() {
    Script::new().run(ACCEPTED).run(
        "
        100 hold
        100 < A 1001:2001 ack 1
        100 write 1500
        100 resume
        100 > A 1:1001 ack 1
        100 > A 1001:1501 ack 1
        100 > A 1501:1501 ack 1 sack 1001-2001
        110 write 500
        110 < A 1:1001 ack 1501
        110 > A 1501:2001 ack 2001
        ",
    );
}

/// RFC 9293 §3.8.6.1: a shut window is probed, ever more seldom, for as long as the peer answers.
#[test]
fn shut_window_is_probed() {
    Script::new().run(ACCEPTED).run(
        "
        100 write 1000
        100 > A 1:1001
        200 < A 1:1 ack 1001 win 0
        200 write 500
        500 > A 1000:1000
        550 < A 1:1 ack 1001 win 0
        1100 > A 1000:1000
        1150 < A 1:1 ack 1001 win 2000
        1150 > A 1001:1501
        ",
    );
}

/// Linux's `tcp_sequence`: both have filled the other's window and lost data, or ask while the window is shut.
#[test]
fn acknowledgement_from_the_end_of_the_window_counts() {
    let small = || {
        Script::new().with(|parameters| parameters.receive_buffer = (2000, 2000)).run(
            "
            0 < S 0:1 win 64000 mss 1000
            0 > SA 0:1 ack 1 win 2000 mss 1000
            100 < A 1:1 ack 1 win 64000
            100 write 1000
            100 > A 1:1001 ack 1
            ",
        )
    };
    small().run(
        "
        150 < A 1001:2001 ack 1
        150 > A 1001:1001 ack 1
        200 < A 2001:2001 ack 1001 win 64000
        10000 write 500
        10000 > A 1001:1501 ack 1
        ",
    );
    small().run(
        "
        150 < A 1:2001 ack 1
        150 > A 1001:1001 ack 2001 win 0
        200 < A 2001:2002 ack 1001 win 64000
        200 > A 1001:1001 ack 2001 win 0
        10000 write 500
        10000 > A 1001:1501 ack 2001
        ",
    );
}

/// A probe that could not be sent before its cause was gone must not keep the shut window from being probed.
#[test]
fn late_tail_probe_is_given_up() {
    Script::new().run(ACCEPTED).run(
        "
        100 write 2000
        100 > A 1:1001
        100 > A 1001:2001
        301 hold
        304 < A 1:1 ack 2001 win 0
        304 resume
        304 write 500
        671 > A 2000:2000
        ",
    );
}

/// An acknowledgement that is due while the device is full holds no timer up, and is sent when there is room.
#[test]
fn acknowledgement_waits_for_the_device() {
    Script::new().run(ACCEPTED).run(
        "
        100 write 1000
        100 > A 1:1001
        300 hold
        300 < A 1001:2001 ack 1
        700 resume
        700 > A 1:1001 ack 1
        700 > A 1001:1001 ack 1 sack 1001-2001
        ",
    );
}

/// RFC 9293 §3.8.6.2.2: a window that was full opens when it is worth a segment.
#[test]
fn window_opens_in_large_steps() {
    Script::new().with(|parameters| parameters.receive_buffer = (2000, 2000)).run(
        "
        0 < S 0:1 win 64000 mss 1000
        0 > SA 0:1 ack 1 win 2000 mss 1000
        100 < A 1:1001 ack 1
        100 > A 1:1 ack 1001 win 1000
        100 < A 1001:2001 ack 1
        100 > A 1:1 ack 2001 win 0
        110 read 500
        120 read 499
        130 read 1
        130 > A 1:1 ack 2001 win 1000
        ",
    );
}

/// RFC 5961 §3, §4, §5.
#[test]
fn blind_attacks_are_challenged() {
    Script::new().run(ACCEPTED).run(
        "
        100 < R 5000:5000
        100 > A 1:1 ack 1
        200 < R 500:500
        700 < SA 1:2 ack 1
        700 > A 1:1 ack 1
        1300 < A 1:11 ack 5000
        1300 > A 1:1 ack 1
        1900 < R 70000:70000
        1900 state Established
        1900 < R 1:1
        1900 state Closed
        ",
    );
}

/// RFC 7323 §5.3.
#[test]
fn old_timestamps_are_dropped() {
    Script::new().run(
        "
        0 < S 0:1 win 64000 mss 1000 sackok ts 5000 0
        0 > SA 0:1 ack 1 mss 1000 sackok ts 0 5000
        50 < A 1:1 ack 1 win 64000 ts 5050 0
        60 < A 1:11 ack 1 ts 4000 0
        60 > A 1:1 ack 1 ts 60 5050
        70 < A 1:11 ack 1 ts 5070 60
        110 > A 1:1 ack 11 ts 110 5070
        ",
    );
}

/// Minshall's variant: one small segment may be outstanding; the next waits, unless it fills up.
#[test]
fn small_segments_wait() {
    Script::new().run(ACCEPTED).run(
        "
        100 write 10
        100 > A 1:11
        110 write 10
        120 write 10
        200 < A 1:1 ack 11 win 64000
        200 > A 11:31
        210 write 1500
        210 > A 31:1031
        250 nodelay
        250 > A 1031:1531
        ",
    );
}

/// RFC 3168 §6.1.
#[test]
fn congestion_marks_are_echoed_and_heeded() {
    Script::new().run(
        "
        0 < SEW 0:1 win 64000 mss 1000 sackok
        0 > SAE 0:1 ack 1 mss 1000 sackok
        100 < A 1:1 ack 1 win 64000
        100 < Ac 1:11 ack 1
        100 > AE 1:1 ack 11
        150 < A 11:21 ack 1
        190 > AE 1:1 ack 21
        200 < AW 21:31 ack 1
        240 > A 1:1 ack 31
        300 write 1000
        300 > A 1:1001
        400 < AE 31:31 ack 1001 win 64000
        400 write 1000
        400 > AW 1001:2001
        ",
    );
}

/// RFC 3168 §6.1.2: whatever has reduced the window, a loss that a probe repaired (RFC 8985 §7.4) or one that SACK blocks show.
#[test]
fn every_reduction_is_announced_to_an_ecn_peer() {
    Script::new().run(
        "
        0 < SEW 0:1 win 64000 mss 1000 sackok
        0 > SAE 0:1 ack 1 mss 1000 sackok
        100 < A 1:1 ack 1 win 64000
        100 write 2000
        100 > A 1:1001
        100 > A 1001:2001
        302 > A 1001:2001
        310 write 1000
        310 > A 2001:3001
        402 < A 1:1 ack 3001 win 64000
        402 write 5000
        402 > AW 3001:4001
        402 > A 4001:5001
        402 > A 5001:6001
        402 > A 6001:7001
        402 > A 7001:8001
        502 < A 1:1 ack 3001 win 64000 sack 4001-7001
        502 > A 3001:4001
        602 < A 1:1 ack 8001 win 64000
        602 write 1000
        602 > AW 8001:9001
        ",
    );
}

/// RFC 9293 §3.8.4.
#[test]
fn silent_peer_is_asked_and_given_up() {
    Script::new().run(ACCEPTED).run(
        "
        100 keepalive 10000 1000 2
        10100 > A 0:0 ack 1
        10200 < A 1:1 ack 1
        20200 > A 0:0 ack 1
        21200 > A 0:0 ack 1
        22200 > RA 1:1 ack 1
        22200 state Closed
        ",
    );
}

/// RFC 9293 §3.10.5.
#[test]
fn abort_sends_a_reset() {
    Script::new().run(ACCEPTED).run(
        "
        100 write 10
        100 > A 1:11
        100 abort
        100 > RA 11:11 ack 1
        100 state Closed
        ",
    );
}
