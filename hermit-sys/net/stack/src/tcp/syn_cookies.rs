//! SYN cookies (RFC 4987 §3.6): in a SYN flood, SYNs are answered without keeping state for them.
//!
//! The state is encoded in the SYN-ACK, and the peer returns it when it acknowledges the SYN-ACK. The
//! sequence number of the SYN-ACK encodes the MSS of the peer, with a keyed hash. The low bits of its
//! timestamp encode window scale, SACK and ECN; without timestamps, the connection does not use these
//! options. An acknowledgement with a valid number proves that the peer is at its address. The connection is
//! created only then.

use hermit_tcp::{Flags, Header, Options, Segment, Seq, Timestamp};

use crate::ip::delivery::Via;
use crate::socket::address::Tuple;
use crate::socket::buffers::SMALLEST;
use crate::socket::context::Context;
use crate::tcp::numbers::{Purpose, Secret};
use crate::tcp::shard::Shard;

/// MSS values that a cookie can encode, in ascending order. The largest one that is not above the peer's MSS
/// is used.
const MSS: [u16; 8] = [536, 1220, 1300, 1400, 1440, 1460, 8940, 65_475];

/// Length of a period in nanoseconds, and number of periods in which a cookie is valid, including the one in
/// which it was made.
const PERIOD: u64 = 60_000_000_000;
const VALID_PERIODS: u32 = 2;

/// Bits of a cookie with the hashed MSS. The other bits have the low bits of the period.
const MSS_MASK: u32 = 0xff_ffff;

/// Low bits of a timestamp, which encode the options.
const OPTIONS_MASK: u32 = 63;
const SCALE_MASK: u32 = 15;
const MAX_SCALE: u32 = 14;
/// Value for a missing window scale: the maximum is 14 (RFC 7323 §2.3).
const NO_SCALE: u32 = 15;
const HAS_SACK: u32 = 16;
const HAS_ECN: u32 = 32;

/// Number of a period, modulo 2^32.
fn period(now: u64) -> u32 {
    u32::try_from((now / PERIOD) & u64::from(u32::MAX)).unwrap_or(0)
}

/// Returns the cookie: the sequence number that answers the SYN with number `syn`.
fn cookie(secret: &Secret, tuple: &Tuple, syn: Seq, mss: u16, now: u64) -> Seq {
    let index = MSS.iter().rposition(|&known| known <= mss).unwrap_or(0);
    let period = period(now);
    let hidden = Seq(secret.number(Purpose::CookieMss, tuple, period)) + u32::try_from(index).unwrap_or(0);
    syn + secret.number(Purpose::Cookie, tuple, 0) + (period << 24) + (hidden.0 & MSS_MASK)
}

/// Returns the MSS in a cookie; `None` if it is not a valid cookie for the SYN with number `syn`.
fn mss_of(secret: &Secret, tuple: &Tuple, syn: Seq, cookie: Seq, now: u64) -> Option<u16> {
    let rest = cookie - syn.0 - secret.number(Purpose::Cookie, tuple, 0);
    // The cookie has the low 8 bits of the period in which it was made.
    let age = period(now).wrapping_sub(rest.0 >> 24) & 0xff;
    if age >= VALID_PERIODS {
        return None;
    }
    let made = period(now).wrapping_sub(age);
    let index = (rest - secret.number(Purpose::CookieMss, tuple, made)).0 & MSS_MASK;
    MSS.get(usize::try_from(index).ok()?).copied()
}

/// Returns a timestamp with the options of a SYN in its low bits: the latest one that is not after `clock`.
fn encode(clock: u32, syn: &Header) -> u32 {
    let scale = syn.options.window_scale.map_or(NO_SCALE, |scale| u32::from(scale).min(MAX_SCALE));
    let sack = if syn.options.sack_permitted { HAS_SACK } else { 0 };
    let ecn = if syn.flags.contains(Flags::ECE | Flags::CWR) { HAS_ECN } else { 0 };
    let value = clock & !OPTIONS_MASK | scale | sack | ecn;
    if value > clock { value.wrapping_sub(OPTIONS_MASK + 1) } else { value }
}

/// Reconstructs the SYN that was answered with a cookie, from the acknowledgement of the cookie.
fn decode(acknowledgement: &Header, mss: u16) -> Header {
    let timestamp = acknowledgement.options.timestamp;
    let bits = timestamp.map_or(NO_SCALE, |timestamp| timestamp.echo & OPTIONS_MASK);
    let ecn = if bits & HAS_ECN == 0 { Flags::empty() } else { Flags::ECE | Flags::CWR };
    Header {
        seq: acknowledgement.seq - 1,
        flags: Flags::SYN | ecn,
        window: acknowledgement.window,
        options: Options {
            mss: Some(mss),
            window_scale: u8::try_from(bits & SCALE_MASK).ok().filter(|&scale| u32::from(scale) != NO_SCALE),
            sack_permitted: bits & HAS_SACK != 0,
            timestamp: timestamp.map(|timestamp| Timestamp { value: timestamp.value, echo: 0 }),
            ..Options::default()
        },
        ..Header::default()
    }
}

impl Shard {
    /// Answers a SYN with a cookie.
    pub(super) fn send_cookie(
        &mut self,
        listener: u32,
        (segment, tuple): (&Segment<'_>, Tuple),
        via: Via,
        context: &mut Context<'_>,
    ) {
        let Some(mut parameters) = self.parameters_of(listener, &tuple, via, context) else { return };
        let now = context.now;
        let syn = &segment.header;
        let mss = syn.options.mss.unwrap_or(parameters.default_mss);
        // When the cookie is acknowledged, there may be more connections, and therefore smaller buffers. The
        // advertised window must fit into the smallest buffer.
        let smallest = u32::try_from(SMALLEST).unwrap_or(u32::MAX);
        parameters.receive_buffer.0 = parameters.receive_buffer.0.min(smallest);
        parameters.iss = cookie(&self.secret, &tuple, syn.seq, mss, now);
        let mut tcp = hermit_tcp::Connection::accept(parameters, segment, now);
        let segment = tcp.next_segment(0, context.buffers.pool(), now);
        let Some(mut answer) = segment.map(|transmit| transmit.header) else { return };
        if let Some(timestamp) = &mut answer.options.timestamp {
            timestamp.value = encode(timestamp.value, syn);
        // Without timestamps, the options cannot be encoded.
        } else {
            (answer.options.window_scale, answer.options.sack_permitted) = (None, false);
            answer.flags.remove(Flags::ECE);
        }
        self.cookies_valid_until = now.saturating_add(PERIOD * u64::from(VALID_PERIODS));
        self.answer(tuple, &answer, via, context.phy);
    }

    /// Receives a segment without a connection if it acknowledges a cookie; returns false if it does not.
    pub(super) fn receive_cookie(
        &mut self,
        (segment, tuple): (&Segment<'_>, Tuple),
        via: Via,
        context: &mut Context<'_>,
    ) -> bool {
        let header = &segment.header;
        let is_acknowledgement = header.flags & (Flags::SYN | Flags::RST | Flags::ACK) == Flags::ACK;
        if context.now >= self.cookies_valid_until || !is_acknowledgement {
            return false;
        }
        let Some(listener) = self.find_listener(&tuple, context.tcp_ports) else { return false };
        let answer = header.ack - 1;
        let mss = mss_of(&self.secret, &tuple, header.seq - 1, answer, context.now);
        let Some((mss, mut parameters)) = mss.zip(self.parameters_of(listener, &tuple, via, context)) else {
            return false;
        };
        parameters.iss = answer;
        let syn = Segment { header: decode(header, mss), payload: &[], is_marked: false };
        let tcp = hermit_tcp::Connection::accept_answered(parameters, &syn, context.now);
        // Without room, drops the segment: the peer retransmits it.
        if self.is_accepting(listener)
            && let Ok(slot) = self.half_open(listener, tcp, tuple, via, context)
        {
            self.receive_for(slot, segment, via, context);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::{MSS, PERIOD, cookie, decode, encode, mss_of};
    use crate::socket::address::{Endpoint, Tuple};
    use crate::tcp::numbers::Secret;
    use crate::testing::System;
    use core::net::{IpAddr, Ipv4Addr};
    use hermit_tcp::{Flags, Header, Options, Seq, Timestamp};

    fn tuple(port: u16) -> Tuple {
        let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Tuple { local: Endpoint::new(here, 80), remote: Endpoint::new(here, port) }
    }

    #[test]
    fn cookie_tells_the_mss_for_a_minute_at_least() {
        let secret = Secret::new(&mut System::new(1));
        for (number, given) in (0..).zip(MSS) {
            let (syn, now) = (Seq(number * 0x1fff_ffff), 1000 * PERIOD + 7);
            let answer = cookie(&secret, &tuple(1), syn, given + 5, now);
            for (periods, found) in [(0, Some(given)), (1, Some(given)), (2, None), (257, None)] {
                let later = now + periods * PERIOD;
                assert_eq!(mss_of(&secret, &tuple(1), syn, answer, later), found, "{given} {periods}");
            }
            assert_eq!(mss_of(&secret, &tuple(2), syn, answer, now), None);
            assert_eq!(mss_of(&secret, &tuple(1), syn + 8, answer, now), None);
            assert_eq!(mss_of(&secret, &tuple(1), syn, answer + 8, now), None);
        }
        // A peer with a smaller MSS gets the smallest one.
        let answer = cookie(&secret, &tuple(1), Seq(0), 100, 0);
        assert_eq!(mss_of(&secret, &tuple(1), Seq(0), answer, 0), Some(MSS[0]));
    }

    /// Returns a SYN with timestamps, and the segment that acknowledges its answer with the timestamp `echo`.
    fn segments(scale: Option<u8>, has_others: bool, echo: u32) -> (Header, Header) {
        let flags = if has_others { Flags::SYN | Flags::ECE | Flags::CWR } else { Flags::SYN };
        let base = Header { window: 5, ..Header::default() };
        let with = |echo| Options { timestamp: Some(Timestamp { value: 9, echo }), ..Options::default() };
        let options = Options { mss: Some(900), window_scale: scale, sack_permitted: has_others, ..with(0) };
        let syn = Header { seq: Seq(99), flags, options, ..base };
        (syn, Header { seq: Seq(100), flags: Flags::ACK, options: with(echo), ..base })
    }

    #[test]
    fn timestamp_tells_the_options() {
        for (scale, has_others) in
            [(None, false), (None, true), (Some(0), false), (Some(7), true), (Some(14), true)]
        {
            for clock in [0, 1, 1000, 1023, u32::MAX] {
                let (syn, _) = segments(scale, has_others, 0);
                let echo = encode(clock, &syn);
                assert!(clock.wrapping_sub(echo) < 64, "{clock} {echo}");
                assert_eq!(decode(&segments(scale, has_others, echo).1, 900), syn);
            }
        }
    }
}
