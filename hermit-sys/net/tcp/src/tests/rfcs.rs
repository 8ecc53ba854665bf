//! Packet scripts for acknowledgements, windows and attacks, and the handshakes with which other scripts
//! begin.
//!
//! Most comments name the RFC or the Linux function that prescribes the behavior. See `script` for the
//! language of the scripts.

use super::script::Script;

/// The peer begins; both offer all options except timestamps.
pub(super) const ACCEPTED: &str = "
    0 < S 0:1 win 64000 mss 1000 wscale 0 sackok
    0 > SA 0:1 ack 1 mss 1000 wscale 0 sackok
    100 < A 1:1 ack 1 win 64000
    100 state Established
";

/// The same handshake without options.
pub(super) const ACCEPTED_PLAIN: &str = "
    0 < S 0:1 win 64000 mss 1000
    0 > SA 0:1 ack 1 mss 1000
    100 < A 1:1 ack 1 win 64000
";

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

/// A device may coalesce segments: a larger one does not change the size of a full segment.
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

/// RFC 2018 §4: a gap is reported even if there is data to be sent.
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

/// RFC 9293 §3.8.6.1: a shut window is probed with growing intervals, for as long as the peer answers.
#[test]
fn shut_window_is_probed() {
    Script::new().run(ACCEPTED).run(
        "
        100 write 1000
        100 > A 1:1001
        200 < A 1:1 ack 1001 win 0
        200 write 500
        500 > A 1000:1001
        550 < A 1:1 ack 1001 win 0
        1100 > A 1000:1001
        1150 < A 1:1 ack 1001 win 2000
        1150 > A 1001:1501
        ",
    );
}

/// RFC 9293 §3.8.6.2.1, MUST-38: data that fits into a small window is sent after a while. Before that, passt
/// (2023-03) does not report more room.
#[test]
fn small_window_is_filled_after_the_override_timeout() {
    Script::new().run(ACCEPTED).run(
        "
        100 write 1000
        100 > A 1:1001
        200 < A 1:1 ack 1001 win 300
        200 write 1500
        500 > A 1001:1301
        550 < A 1:1 ack 1301 win 2000
        550 > A 1301:2301
        550 > A 2301:2501
        ",
    );
}

/// Linux's `tcp_sequence`: both ends have filled each other's window and data was lost, or both probe a shut
/// window.
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

/// While the device was full, the cause of a tail loss probe has gone. The late probe must not prevent probes
/// of the shut window.
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
        671 > A 2000:2001
        ",
    );
}

/// While the device is full, a due acknowledgement does not delay timers. The acknowledgement is sent when
/// there is room.
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

/// RFC 3168 §6.1.2: every reduction is reported, also a reduction because of a loss that a probe has repaired
/// (RFC 8985 §7.4), or that SACK blocks show.
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
