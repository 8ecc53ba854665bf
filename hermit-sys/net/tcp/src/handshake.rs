//! The three-way handshake (RFC 9293 §3.5).
//!
//! An active open sends a SYN ([`Connection::connect`]). A passive open answers the SYN of a peer
//! ([`Connection::accept`]). The SYN or SYN-ACK is sent again, with exponential backoff, until the peer
//! answers. Window scaling, SACK, timestamps and ECN are used if both ends offer them. `establish` ends the
//! handshake: it takes the first RTT sample and starts loss recovery, and data may then be sent.

use crate::ack::AckState;
use crate::buffers::Pool;
use crate::buffers::receive::ReceiveBuffer;
use crate::connection::{Connection, Events, Failure, MAX_SCALE, Parameters, State, Timestamps};
use crate::mss::MIN_MSS;
use crate::recovery::Recovery;
use crate::rtt::RttEstimator;
use crate::segment::{Flags, Header, Options, Segment, Timestamp};
use crate::seq::Seq;

impl Connection {
    /// Begins a connection by sending a SYN.
    #[must_use]
    pub fn connect(parameters: Parameters, now: u64) -> Self {
        Self::new(State::SynSent, parameters, now)
    }

    /// Answers the SYN of a peer with a SYN-ACK.
    #[must_use]
    pub fn accept(parameters: Parameters, syn: &Segment<'_>, now: u64) -> Self {
        let mut connection = Self::new(State::SynReceived, parameters, now);
        connection.take_syn(&syn.header, now);
        // An ECN-setup SYN (RFC 3168 §6.1.1).
        connection.ecn.is_on = syn.header.flags.contains(Flags::ECE | Flags::CWR);
        connection
    }

    /// Accepts a peer whose SYN was answered without keeping state for it (SYN cookie, RFC 4987 §3.6). `syn`
    /// contains the known fields of this SYN. The caller must then pass the segment that acknowledges the
    /// SYN-ACK to [`receive`](Self::receive).
    #[must_use]
    pub fn accept_answered(parameters: Parameters, syn: &Segment<'_>, now: u64) -> Self {
        let mut connection = Self::accept(parameters, syn, now);
        if let Some(header) = connection.handshake_segment(now) {
            connection.on_handshake_sent(&header, now);
        }
        // The time of the SYN-ACK is unknown, so there is no RTT sample.
        connection.timers.stalled_since = None;
        connection
    }

    /// Stores the peer's sequence numbers and options.
    fn take_syn(&mut self, header: &Header, now: u64) {
        let (irs, next) = (header.seq, header.seq + 1);
        let limit = self.receiving.buffer.limit();
        self.receiving.buffer = ReceiveBuffer::new(next, limit);
        (self.receiving.irs, self.receiving.edge) = (irs, next);
        self.ack = AckState::new(next, self.ack.is_quick_forced);
        let options = &header.options;
        let offers = self.parameters.has_options;
        let peer_mss = options.mss.filter(|&mss| mss != 0).unwrap_or(self.parameters.default_mss);
        self.sending.mss = peer_mss.max(MIN_MSS).min(self.sending.mss);
        self.has_window_scale = offers && options.window_scale.is_some();
        // Neither end scales unless both have the option.
        match options.window_scale.filter(|_| offers) {
            Some(scale) => self.sending.scale = scale.min(MAX_SCALE),
            None => self.receiving.scale = 0,
        }
        self.has_sack = offers && options.sack_permitted;
        self.timestamps = options
            .timestamp
            .filter(|_| offers)
            .map(|timestamp| Timestamps { recent: timestamp.value, recent_at: now });
        self.receiving.mss = u32::from(self.parameters.mss).saturating_sub(self.timestamp_size());
        // The window of a SYN is not scaled.
        self.sending.window = u32::from(header.window);
        self.sending.max_window = self.sending.window;
        (self.sending.wl1, self.sending.wl2) = (header.seq, header.ack);
    }

    /// Bytes of the timestamp option in each segment.
    pub(crate) const fn timestamp_size(&self) -> u32 {
        if self.timestamps.is_some() { 12 } else { 0 }
    }

    /// Bytes of data in a full-sized segment without SACK blocks.
    pub(crate) const fn data_mss(&self) -> u32 {
        self.sending.mss as u32 - self.timestamp_size()
    }

    /// The SYN or SYN-ACK, if it is due.
    pub(crate) fn handshake_segment(&self, now: u64) -> Option<Header> {
        self.timers.handshake_at.filter(|&at| at <= now)?;
        let is_answer = self.state == State::SynReceived;
        let offers = self.parameters.has_options;
        let clock = self.clock(now);
        let recent = self.timestamps.map(|timestamps| timestamps.recent);
        let timestamp = if is_answer { recent } else { offers.then_some(0) };
        let has_scale = if is_answer { self.has_window_scale } else { offers };
        let ecn = match () {
            () if !is_answer && self.parameters.asks_for_ecn => Flags::ECE | Flags::CWR,
            () if is_answer && self.ecn.is_on => Flags::ECE,
            () => Flags::empty(),
        };
        let window = self.receiving.buffer.room().min(u32::from(u16::MAX));
        Some(Header {
            seq: self.parameters.iss,
            ack: if is_answer { self.receive_next() } else { Seq(0) },
            flags: Flags::SYN | ecn | if is_answer { Flags::ACK } else { Flags::empty() },
            window: u16::try_from(window).unwrap_or(u16::MAX),
            urgent: 0,
            options: Options {
                mss: Some(self.parameters.mss),
                window_scale: has_scale.then_some(self.receiving.scale),
                sack_permitted: if is_answer { self.has_sack } else { offers },
                timestamp: timestamp.map(|echo| Timestamp { value: clock, echo }),
                ..Options::default()
            },
        })
    }

    /// Records that the SYN or SYN-ACK was sent.
    pub(crate) fn on_handshake_sent(&mut self, header: &Header, now: u64) {
        self.recovery.start_at(self.parameters.iss + 1);
        if self.state == State::SynReceived {
            self.receiving.edge = self.receiving.edge.max(header.ack + u32::from(header.window));
            self.ack.on_sent(header.ack);
        }
        if self.timers.stalled_since.is_some() {
            self.recovery.back_off();
        }
        // Time of the first transmission.
        self.timers.stalled_since.get_or_insert(now);
        self.timers.handshake_at = Some(now.saturating_add(self.recovery.rtt().rto()));
    }

    /// Receives a segment in SYN-SENT (RFC 9293 §3.10.7.3).
    pub(crate) fn receive_in_syn_sent(&mut self, segment: &Segment<'_>, pool: &mut Pool, now: u64) -> Events {
        let header = &segment.header;
        let has_ack = header.flags.contains(Flags::ACK);
        if has_ack && !self.acknowledges_syn(header) {
            // The host answers with a reset: see `Connection::is_answered_by_reset`.
            return Events::empty();
        }
        if header.flags.contains(Flags::RST) {
            if !has_ack {
                return Events::empty();
            }
            self.end(Some(Failure::Refused), pool);
            return Events::CLOSED;
        }
        if !header.flags.contains(Flags::SYN) {
            return Events::empty();
        }
        self.take_syn(header, now);
        if !has_ack {
            // Simultaneous open.
            self.state = State::SynReceived;
            self.timers.handshake_at = Some(now);
            return Events::empty();
        }
        // An ECN-setup SYN-ACK.
        let echoes = header.flags & (Flags::ECE | Flags::CWR) == Flags::ECE;
        self.ecn.is_on = self.parameters.asks_for_ecn && echoes;
        self.establish(header, now);
        self.ack.set_due();
        Events::ESTABLISHED | Events::WRITABLE
    }

    /// True if this end has sent its SYN, and a segment acknowledges it.
    pub(crate) fn acknowledges_syn(&self, header: &Header) -> bool {
        header.ack == self.parameters.iss + 1 && self.recovery.nxt() == header.ack
    }

    /// True if a segment acknowledges something never sent, before the handshake is complete. The host
    /// answers it with a reset (RFC 9293 §3.10.7.3, §3.10.7.4), so that a peer with an earlier connection
    /// drops that connection.
    #[must_use]
    pub fn is_answered_by_reset(&self, header: &Header) -> bool {
        let is_unanswered = match self.state {
            State::SynSent => true,
            State::SynReceived => {
                let window = self.receiving.edge.since(self.receive_next()).max(1);
                !header.flags.contains(Flags::SYN) && header.seq.is_in(self.receive_next(), window)
            }
            _ => false,
        };
        is_unanswered
            && header.flags.contains(Flags::ACK)
            && !header.flags.contains(Flags::RST)
            && !self.acknowledges_syn(header)
    }

    /// Sends the SYN again at once. The peer had an earlier connection, which has been reset (RFC 9293
    /// §3.5.1).
    pub const fn repeat_syn(&mut self, now: u64) {
        if matches!(self.state, State::SynSent) {
            self.timers.handshake_at = Some(now);
        }
    }

    /// Completes the handshake.
    pub(crate) fn establish(&mut self, header: &Header, now: u64) {
        let una = self.parameters.iss + 1;
        let mut rtt = RttEstimator::new(now);
        let was_repeated = self.recovery.rtt().backoff() > 0;
        // A timestamp identifies the transmission, so it gives a sample even after retransmissions.
        let echoed = header.options.timestamp.and_then(|timestamp| self.clock_time(timestamp.echo, now));
        if let Some(sent_at) = echoed.filter(|_| self.timestamps.is_some()) {
            rtt.add(now.saturating_sub(sent_at), now);
        } else if let Some(sent_at) = self.timers.stalled_since.filter(|_| !was_repeated) {
            rtt.add(now.saturating_sub(sent_at), now);
        }
        let mss = self.data_mss();
        self.recovery = Recovery::new(una, self.parameters.algorithm, mss, self.has_sack, rtt, now);
        if self.parameters.is_paced {
            self.recovery.start_pacing();
        }
        (self.timers.handshake_at, self.timers.stalled_since) = (None, None);
        self.state = if self.sending.is_closed { State::FinWait1 } else { State::Established };
    }
}
