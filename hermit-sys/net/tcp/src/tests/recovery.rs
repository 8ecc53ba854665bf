//! Packet scripts for loss recovery and congestion control.
//!
//! Most scripts send ten segments, and then deliver acknowledgements that show a loss, reordering or a
//! spurious retransmission. The comment above a test names the RFC that prescribes the answer.

use super::rfcs::{ACCEPTED, ACCEPTED_PLAIN};
use super::script::Script;
use crate::Algorithm;
use std::format;
use std::string::String;

/// RFC 6928: ten segments; RFC 5681 §3.1: slow start.
#[test]
fn initial_window_has_ten_segments() {
    let script = format!(
        "
        100 write 20000
        {TEN_SEGMENTS_SENT}
        200 < A 1:1 ack 2001 win 64000
        200 > A 10001:11001
        200 > A 11001:12001
        200 > A 12001:13001
        200 > A 13001:14001
        "
    );
    Script::new().run(ACCEPTED).run(&script);
}

const TEN_SEGMENTS_SENT: &str = "
    100 > A 1:1001
    100 > A 1001:2001
    100 > A 2001:3001
    100 > A 3001:4001
    100 > A 4001:5001
    100 > A 5001:6001
    100 > A 6001:7001
    100 > A 7001:8001
    100 > A 8001:9001
    100 > A 9001:10001
";

/// Ten segments are written and sent.
fn ten_segments() -> String {
    format!("100 write 10000 {TEN_SEGMENTS_SENT}")
}

/// Pacing: twice the window in a round trip, in bursts of four segments, after the initial window.
#[test]
fn data_leaves_at_a_rate() {
    let sent: String = (10..30)
        .map(|number| {
            let time = 200 + (number - 10) / 4 * 10;
            format!("{time} > A {}:{}\n", number * 1000 + 1, number * 1000 + 1001)
        })
        .collect();
    let script = format!("200 < A 1:1 ack 10001 win 64000\n200 write 20000\n{sent}");
    Script::new()
        .with(|parameters| parameters.is_paced = true)
        .run(ACCEPTED)
        .run(&ten_segments())
        .run(&script);
}

/// RFC 8985 §6.2: three segments after a gap show a loss, if there was no reordering before. RFC 6937: the
/// second retransmission waits for its share.
#[test]
fn loss_is_retransmitted_after_three_segments_are_sacked() {
    Script::new().run(ACCEPTED).run(&ten_segments()).run(
        "
        200 < A 1:1 ack 1 win 64000 sack 1001-2001
        201 < A 1:1 ack 1 win 64000 sack 1001-3001
        202 < A 1:1 ack 1 win 64000 sack 1001-4001
        202 > A 1:1001
        300 < A 1:1 ack 10001 win 64000
        300 write 1000
        300 > A 10001:11001
        ",
    );
}

/// RFC 8985 §6.2: a segment that is late by less than a quarter of the RTT is not lost.
#[test]
fn reordering_window_waits() {
    Script::new().run(ACCEPTED).run(&ten_segments()).run(
        "
        200 < A 1:1 ack 1 win 64000 sack 1001-2001
        210 < A 1:1 ack 10001 win 64000
        210 write 10000
        210 > A 10001:11001
        210 > A 11001:12001
        210 > A 12001:13001
        210 > A 13001:14001
        210 > A 14001:15001
        210 > A 15001:16001
        210 > A 16001:17001
        210 > A 17001:18001
        210 > A 18001:19001
        210 > A 19001:20001
        310 < A 1:1 ack 10001 win 64000 sack 11001-20001
        335 > A 10001:11001
        ",
    );
}

/// RFC 8985 §7: a probe after two round trips without an acknowledgement. The retransmission timeout (RFC
/// 6298) then starts with the probe.
#[test]
fn tail_loss_is_probed_before_the_timeout() {
    Script::new().run(ACCEPTED).run(
        "
        100 write 2000
        100 > A 1:1001
        100 > A 1001:2001
        302 > A 1001:2001
        402 < A 1:1 ack 1 win 64000 sack 1001-2001
        402 > A 1:1001
        500 < A 1:1 ack 2001 win 64000
        ",
    );
    Script::new().run(ACCEPTED).run(
        "
        100 write 2000
        100 > A 1:1001
        100 > A 1001:2001
        302 > A 1001:2001
        602 > A 1:1001
        1202 > A 1:513
        1202 > A 513:1001
        2402 > A 1:513
        ",
    );
}

/// RFC 5681 §3.2, RFC 6582, RFC 3042: a peer without SACK.
#[test]
fn duplicate_acknowledgements_show_a_loss() {
    Script::new().run(ACCEPTED_PLAIN).run(&ten_segments()).run(
        "
        150 write 5000
        200 < A 1:1 ack 1 win 64000
        200 > A 10001:11001
        201 < A 1:1 ack 1 win 64000
        201 > A 11001:12001
        202 < A 1:1 ack 1 win 64000
        202 > A 1:1001
        300 < A 1:1 ack 3001 win 64000
        300 > A 3001:4001
        400 < A 1:1 ack 12001 win 64000
        400 > A 12001:13001
        400 > A 13001:14001
        400 > A 14001:15001
        ",
    );
}

/// RFC 3522: the acknowledgement of the original shows that the timeout was wrong.
#[test]
fn spurious_timeout_is_undone() {
    Script::new().run(
        "
        0 < S 0:1 win 64000 mss 1012 sackok ts 5000 0
        0 > SA 0:1 ack 1 mss 1000 sackok
        100 < A 1:1 ack 1 win 64000 ts 5100 0
        100 write 1976
        100 > A 1:989
        100 > A 989:1977
        302 > A 989:1977
        602 > A 1:989
        700 < A 1:1 ack 989 win 64000 ts 5700 100
        710 < A 1:1 ack 1977 win 64000 ts 5710 100
        710 write 9880
        710 > A 1977:2965
        710 > A 2965:3953
        710 > A 3953:4941
        710 > A 4941:5929
        710 > A 5929:6917
        710 > A 6917:7905
        710 > A 7905:8893
        710 > A 8893:9881
        710 > A 9881:10869
        710 > A 10869:11857
        ",
    );
}

/// As QUIC does (RFC 9002 §6.2): if a retransmission is lost and no later segment shows it, it is repeated
/// once before the timeout.
#[test]
fn lost_retransmission_is_repeated_before_the_timeout() {
    Script::new().run(ACCEPTED).run(
        "
        100 write 5000
        100 > A 1:1001
        100 > A 1001:2001
        100 > A 2001:3001
        100 > A 3001:4001
        100 > A 4001:5001
        200 < A 1:1 ack 1 win 64000 sack 1001-5001
        200 > A 1:1001
        402 > A 1:1001
        702 > A 1:1001
        1302 > A 1:513
        1302 > A 513:1001
        ",
    );
}

/// RFC 8985 §7.2, and a second probe if there is time before the timeout. The acknowledgement of the first
/// probe was lost.
#[test]
fn short_round_trips_have_two_probes() {
    Script::new().run(
        "
        0 < S 0:1 win 64000 mss 1000 wscale 0 sackok
        0 > SA 0:1 ack 1 mss 1000 wscale 0 sackok
        10 < A 1:1 ack 1 win 64000
        100 write 2000
        100 > A 1:1001
        100 > A 1001:2001
        122 > A 1001:2001
        166 > A 1001:2001
        332 > A 1:1001
        340 < A 1:1 ack 2001 win 64000
        ",
    );
}

/// RFC 3522 in spirit: the device was busy, so nothing was retransmitted before the gap was filled.
#[test]
fn recovery_without_retransmissions_is_undone_when_the_gap_is_filled() {
    Script::new().run(ACCEPTED).run(&ten_segments()).run(
        "
        200 hold
        200 < A 1:1 ack 1 win 64000 sack 1001-4001
        201 < A 1:1 ack 4001 win 64000
        202 write 20000
        202 resume
        202 > A 10001:11001
        202 > A 11001:12001
        202 > A 12001:13001
        202 > A 13001:14001
        202 > A 14001:15001
        ",
    );
}

/// RFC 8985 §6.2: the timestamp shows that the original was late. This is reordering, although the segment
/// had been retransmitted. Afterwards a segment that is late by less than a quarter of the RTT is not lost.
#[test]
fn spurious_retransmission_shows_reordering() {
    Script::new().run(
        "
        0 < S 0:1 win 64000 mss 1012 sackok ts 5000 0
        0 > SA 0:1 ack 1 mss 1000 sackok
        100 < A 1:1 ack 1 win 64000 ts 5100 0
        100 write 4940
        100 > A 1:989
        100 > A 989:1977
        100 > A 1977:2965
        100 > A 2965:3953
        100 > A 3953:4941
        200 < A 1:1 ack 1 win 64000 ts 5200 100 sack 989-4941
        200 > A 1:989
        210 < A 1:1 ack 4941 win 64000 ts 5210 100
        210 write 4940
        210 > A 4941:5929
        210 > A 5929:6917
        210 > A 6917:7905
        210 > A 7905:8893
        210 > A 8893:9881
        310 < A 1:1 ack 4941 win 64000 ts 5310 210 sack 5929-9881
        320 < A 1:1 ack 9881 win 64000 ts 5320 210
        ",
    );
}

/// RFC 5681 §3.1: the window counts as used, even if several acknowledgements are processed before the device
/// takes a segment.
#[test]
fn window_grows_by_each_acknowledgement_of_a_batch() {
    let acknowledgements: String =
        (1..=10).map(|number| format!("200 < A 1:1 ack {} win 64000\n", number * 1000 + 1)).collect();
    let sent: String =
        (10..30).map(|number| format!("200 > A {}:{}\n", number * 1000 + 1, number * 1000 + 1001)).collect();
    let script = format!("150 write 40000\n200 hold\n{acknowledgements}200 resume\n{sent}");
    Script::new().run(ACCEPTED).run(&ten_segments()).run(&script);
}

/// RFC 7323 §4.3: while there is a gap, the peer echoes the timestamp of the segment before the gap. The echo
/// therefore does not show when a retransmission was sent that a SACK block acknowledges. The first
/// retransmission was lost.
#[test]
fn lost_retransmission_is_found_by_a_later_one() {
    Script::new().run(
        "
        0 < S 0:1 win 64000 mss 1012 sackok ts 5000 0
        0 > SA 0:1 ack 1 mss 1000 sackok
        100 < A 1:1 ack 1 win 64000 ts 5100 0
        100 write 9880
        100 > A 1:989
        100 > A 989:1977
        100 > A 1977:2965
        100 > A 2965:3953
        100 > A 3953:4941
        100 > A 4941:5929
        100 > A 5929:6917
        100 > A 6917:7905
        100 > A 7905:8893
        100 > A 8893:9881
        200 < A 1:1 ack 1 win 64000 ts 5200 0 sack 989-1977 2965-9881
        200 > A 1:989
        200 > A 1977:2965
        300 < A 1:1 ack 1 win 64000 ts 5300 0 sack 989-9881
        300 > A 1:989
        ",
    );
}

/// BBR: a loss does not shrink the window.
#[test]
fn bbr_sends_on_in_a_recovery() {
    Script::new()
        .with(|parameters| parameters.algorithm = Algorithm::Bbr)
        .run(ACCEPTED)
        .run(&ten_segments())
        .run(
            "
        150 write 20000
        200 < A 1:1 ack 1 win 64000 sack 1001-8001
        200 > A 1:1001
        200 > A 10001:11001
        200 > A 11001:12001
        200 > A 12001:13001
        200 > A 13001:14001
        ",
        );
}

/// BBR: after a timeout one segment is sent, and then its minimum window.
#[test]
fn bbr_sends_a_segment_after_a_timeout() {
    Script::new().with(|parameters| parameters.algorithm = Algorithm::Bbr).run(ACCEPTED).run(
        "
        100 write 4000
        100 > A 1:1001
        100 > A 1001:2001
        100 > A 2001:3001
        100 > A 3001:4001
        302 > A 3001:4001
        602 > A 1:1001
        700 < A 1:1 ack 1001 win 64000
        700 > A 1001:2001
        700 > A 2001:3001
        700 > A 3001:4001
        ",
    );
}

/// BBR: an owner that writes one segment in each round trip does not show the rate of the path. Startup
/// continues, and the window is not reduced to the 6 segments that such a rate needs.
#[test]
fn bbr_keeps_the_window_of_an_owner_with_little_data() {
    let rounds: String = (1..=14)
        .map(|number| {
            let (time, start) = (number * 100, number * 1000 - 999);
            let end = start + 1000;
            format!(
                "{time} write 1000\n{time} > A {start}:{end}\n{} < A 1:1 ack {end} win 64000\n",
                time + 99
            )
        })
        .collect();
    let bbr = Script::new().with(|parameters| parameters.algorithm = Algorithm::Bbr);
    let connection = bbr.run(ACCEPTED).run(&rounds).connection.unwrap();
    assert_eq!(connection.recovery.window().size, 19_000);
}
