//! Packet scripts for the beginning and the end of connections.

use super::rfcs::{ACCEPTED, ACCEPTED_PLAIN};
use super::script::Script;

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

/// As Linux's `tcp_keepalive_timer` does, if the connection has an owner. Without the owner, the connection
/// ends silently (`tcp_fin_timeout`).
#[test]
fn silent_peer_in_fin_wait_2_is_reset() {
    Script::new().run(ACCEPTED).run(
        "
        100 keepalive 10000 1000 1
        100 close
        100 > FA 1:2 ack 1
        150 < A 1:1 ack 2
        150 state FinWait2
        10150 > A 1:1 ack 1
        11150 > RA 2:2 ack 1
        11150 state Closed
        ",
    );
    Script::new().run(ACCEPTED).run(
        "
        100 close
        100 > FA 1:2 ack 1
        150 < A 1:1 ack 2
        200 orphan
        60200 state Closed
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
