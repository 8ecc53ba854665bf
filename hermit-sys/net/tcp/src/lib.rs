//! One end of a TCP connection (RFC 9293): a plain state machine.
//!
//! [`Connection`] takes segments, the owner's calls and the time, and returns the segment to be sent next. It
//! knows neither addresses nor packets nor devices, never waits, and allocates nothing for a segment: data is
//! in chunks of a [`Pool`] that all connections share.
//!
//! ```text
//! segment ─► Connection::receive ─┐                         ┌─► next_segment ─► (a packet is written) ─► sent
//! time    ─► Connection::on_timer ├─► Events, new state ────┤
//! owner   ─► write, read, close ──┘                         └─► deadline: when to call on_timer
//! ```
//!
//! A segment that `next_segment` returns does not count as sent until `sent` is called. If the device has no
//! room, the host drops the segment and asks for it again.
//!
//! | module | contents | specification |
//! | --- | --- | --- |
//! | `connection`, `handshake` | states, the owner's calls; the beginning | RFC 9293 §3.3 to §3.6, RFC 7323 §2 |
//! | `rx`, `tx` | segments that arrive and leave | RFC 9293 §3.10.7, RFC 5961, RFC 7323 §5; RFC 9293 §3.8.6 |
//! | `ack` | delayed acknowledgements, challenges | RFC 5681 §4.2, RFC 5961 §7 |
//! | `timers`, `timeouts` | keep-alive, user timeout, TIME-WAIT | RFC 9293 §3.8.3, §3.8.4 |
//! | `mss` | size of segments, black holes | RFC 1191, RFC 4821 §7.7 |
//! | `recovery` | losses: SACK, RACK-TLP, PRR, Eifel; pacing, delivery rate | RFC 2018, 2883, 3522, 6298, 6582, 6937, 8985 |
//! | `congestion` | CUBIC, Reno, HyStart++, BBR | RFC 5681, 6928, 9406, 9438, draft-ietf-ccwg-bbr |
//! | `rtt` | round-trip time and retransmission timeout | RFC 6298 |
//! | `local` | data between two ends in one host | |
//! | `buffers` | data to be sent and read | |
//!
//! State of a host with several connections is not here: ports, listeners, SYN cookies, records of TIME-WAIT.
//! Urgent data is received like other data. There is no search for a larger MTU.
#![no_std]
#![forbid(unsafe_code)]
extern crate alloc;
#[cfg(test)]
extern crate std;
mod ack;
mod buffers;
mod congestion;
mod connection;
mod handshake;
mod local;
mod mss;
mod recovery;
mod rtt;
mod rx;
mod segment;
mod seq;
#[cfg(test)]
mod tests;
mod timeouts;
mod timers;
mod tx;

pub use buffers::{CHUNK, Pool, Purpose};
pub use congestion::Algorithm;
pub use connection::{Connection, Events, Failure, Parameters, State, TransmitOptions};
pub use segment::{Flags, Header, MAX_SACK_BLOCKS, Options, SackBlock, SackBlocks, Segment, Timestamp};
pub use seq::Seq;
pub use timers::KeepAlive;
pub use tx::Transmit;
