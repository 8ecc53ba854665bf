//! State of a connection, and the calls of its owner.
//!
//! A [`Connection`] is the transmission control block of RFC 9293 §3.3.1 with its buffers. It consists of the
//! sending and the receiving half, the loss recovery of the sender, the acknowledgements of the receiver, and
//! the timers. The owner reads, writes, closes and sets options here. These calls only change the state: the
//! host then asks for the segments to be sent (`tx`). Received segments are in `rx`, and deadlines in
//! `timeouts`. This module also computes the window that is advertised.

use bitflags::bitflags;

use crate::ack::AckState;
use crate::buffers::Pool;
use crate::buffers::receive::ReceiveBuffer;
use crate::buffers::send::SendBuffer;
use crate::congestion::Algorithm;
use crate::recovery::Recovery;
use crate::rtt::{MS, RttEstimator};
use crate::segment::Timestamp;
use crate::seq::Seq;
use crate::timers::{KeepAlive, Timers};

/// State of a connection (RFC 9293 §3.3.2). There is no LISTEN: a connection begins with a SYN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A SYN was sent, or will be.
    SynSent,
    /// A SYN was received and is answered.
    SynReceived,
    /// Data flows in both directions.
    Established,
    /// This end has sent a FIN, which is not acknowledged.
    FinWait1,
    /// This end has sent a FIN, which is acknowledged.
    FinWait2,
    /// The peer has sent a FIN.
    CloseWait,
    /// Both ends have sent a FIN; this end's FIN is not acknowledged.
    Closing,
    /// Both ends have sent a FIN, the peer first; this end's FIN is not acknowledged.
    LastAck,
    /// Both ends are closed. A retransmitted FIN is acknowledged.
    TimeWait,
    /// The connection is over.
    Closed,
}

/// Reason why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer refused the connection.
    Refused,
    /// The peer reset the connection.
    Reset,
    /// The peer did not answer.
    TimedOut,
}

bitflags! {
    /// Changes by a segment or a timer.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Events: u8 {
        /// There is more to read, or the peer's FIN has arrived.
        const READABLE = 1 << 0;
        /// There is more room to write.
        const WRITABLE = 1 << 1;
        /// The handshake is complete.
        const ESTABLISHED = 1 << 2;
        /// The connection is over: see [`Connection::failure`].
        const CLOSED = 1 << 3;
    }
}

/// Initial parameters of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Parameters {
    /// Initial send sequence number (RFC 6528).
    pub iss: Seq,
    /// Value of the timestamp clock at time 0.
    pub clock_offset: u32,
    /// Bytes of TCP data and options in the largest packet of the path: the MSS of the SYN.
    pub mss: u16,
    /// MSS of a peer whose SYN has none: 536 over IPv4, 1,220 over IPv6 (RFC 9293 §3.7.1).
    pub default_mss: u16,
    /// Congestion control.
    pub algorithm: Algorithm,
    /// True if data is paced, instead of a window being sent at once.
    pub is_paced: bool,
    /// Initial and maximum size of the receive buffer in bytes.
    pub receive_buffer: (u32, u32),
    /// Initial and maximum size of the send buffer in bytes.
    pub send_buffer: (u32, u32),
    /// True if a connection that this end begins asks for ECN. If the peer asks, this end always agrees, as
    /// in Linux.
    pub asks_for_ecn: bool,
    /// True if timestamps, window scaling and SACK are offered.
    pub has_options: bool,
}

/// Options of the owner, which may change at any time.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransmitOptions {
    /// `TCP_NODELAY`: small segments do not wait for acknowledgements.
    pub no_delay: bool,
    /// `TCP_CORK`: small segments wait for more data.
    pub cork: bool,
}

/// The sending half (RFC 9293 §3.3.1).
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) buffer: SendBuffer,
    pub(crate) max_limit: u32,
    /// SND.WND, scaled, and its maximum so far.
    pub(crate) window: u32,
    pub(crate) max_window: u32,
    /// SND.WL1, SND.WL2
    pub(crate) wl1: Seq,
    pub(crate) wl2: Seq,
    /// Snd.Wind.Shift
    pub(crate) scale: u8,
    /// Bytes of data and options in a full segment.
    pub(crate) mss: u16,
    /// True if the owner sends no more.
    pub(crate) is_closed: bool,
    /// Sequence number of the FIN; `None` until it is sent.
    pub(crate) fin: Option<Seq>,
    /// End of the last segment that was not full: Minshall's variant of Nagle's algorithm.
    pub(crate) small: Option<Seq>,
}

/// The receiving half.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) buffer: ReceiveBuffer,
    pub(crate) max_limit: u32,
    /// IRS
    pub(crate) irs: Seq,
    /// Sequence number after the largest window that was advertised. The buffer has room up to this number.
    pub(crate) edge: Seq,
    /// True if data in order has been dropped because all memory was in use, and nothing was read since.
    pub(crate) lacks_memory: bool,
    /// Rcv.Wind.Shift
    pub(crate) scale: u8,
    /// Bytes of data in the largest of the last segments.
    pub(crate) mss: u32,
    /// Number of the peer's FIN, after it has arrived.
    pub(crate) fin: Option<Seq>,
    /// True if the FIN and all data before it have arrived.
    pub(crate) is_finished: bool,
    /// Bytes that the owner has read since `read_since`, for the size of the buffer.
    pub(crate) read: u32,
    pub(crate) read_since: u64,
}

/// Timestamps, if both ends send them (RFC 7323 §3).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timestamps {
    /// TS.Recent, and when it was set.
    pub(crate) recent: u32,
    pub(crate) recent_at: u64,
}

/// Explicit congestion notification (RFC 3168), if both ends support it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ecn {
    pub(crate) is_on: bool,
    /// True while a mark is echoed: until the peer reports that it has reduced its window.
    pub(crate) echoes: bool,
}

/// One end of a connection.
#[derive(Debug)]
pub struct Connection {
    pub(crate) state: State,
    pub(crate) failure: Option<Failure>,
    pub(crate) parameters: Parameters,
    pub(crate) options: TransmitOptions,
    pub(crate) sending: Sending,
    pub(crate) receiving: Receiving,
    pub(crate) recovery: Recovery,
    pub(crate) ack: AckState,
    pub(crate) timestamps: Option<Timestamps>,
    pub(crate) ecn: Ecn,
    pub(crate) has_sack: bool,
    /// True if both ends scale their windows.
    pub(crate) has_window_scale: bool,
    pub(crate) timers: Timers,
    /// True if a RST must be sent.
    pub(crate) resets: bool,
}

impl Connection {
    pub(crate) fn new(state: State, parameters: Parameters, now: u64) -> Self {
        let mss = u32::from(parameters.mss);
        let rtt = RttEstimator::new(now);
        let (size, max_limit) = parameters.receive_buffer;
        let receiving = Receiving {
            buffer: ReceiveBuffer::new(Seq(0), size),
            max_limit,
            irs: Seq(0),
            edge: Seq(0),
            lacks_memory: false,
            scale: if parameters.has_options { window_scale(max_limit) } else { 0 },
            mss,
            fin: None,
            is_finished: false,
            read: 0,
            read_since: now,
        };
        let (size, max_limit) = parameters.send_buffer;
        let sending = Sending {
            buffer: SendBuffer::new(size),
            max_limit,
            window: 0,
            max_window: 0,
            wl1: Seq(0),
            wl2: Seq(0),
            scale: 0,
            mss: parameters.mss,
            is_closed: false,
            fin: None,
            small: None,
        };
        Self {
            state,
            failure: None,
            parameters,
            options: TransmitOptions::default(),
            sending,
            receiving,
            recovery: Recovery::new(parameters.iss, parameters.algorithm, mss, false, rtt, now),
            ack: AckState::new(Seq(0), false),
            timestamps: None,
            ecn: Ecn::default(),
            has_sack: false,
            has_window_scale: false,
            timers: Timers::new(now),
            resets: false,
        }
    }

    /// Returns the state.
    #[must_use]
    pub const fn state(&self) -> State {
        self.state
    }

    /// Reason why the connection is over; `None` before, and if both ends have closed it.
    #[must_use]
    pub const fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// Returns the options that the owner may change.
    pub const fn options(&mut self) -> &mut TransmitOptions {
        &mut self.options
    }

    /// Changes the congestion control, unless the window is unlimited: `TCP_CONGESTION`.
    pub fn set_algorithm(&mut self, algorithm: Algorithm, now: u64) {
        self.recovery.set_algorithm(algorithm, now);
    }

    /// Disables or enables the delay of acknowledgements: `TCP_QUICKACK`.
    pub const fn set_quick_ack(&mut self, is_quick: bool) {
        self.ack.is_quick_forced = is_quick;
    }

    /// Sets the times of keep-alive probes, or disables them: `SO_KEEPALIVE`.
    pub fn set_keep_alive(&mut self, keep_alive: Option<KeepAlive>) {
        self.timers.keep_alive = keep_alive;
    }

    /// Sets the time in nanoseconds after which unacknowledged data ends the connection, instead of Linux's
    /// 924 s: `TCP_USER_TIMEOUT`.
    pub const fn set_user_timeout(&mut self, timeout: Option<u64>) {
        self.timers.user_timeout = timeout;
    }

    /// Marks the connection as one without an owner, which is given up sooner.
    pub const fn set_orphan(&mut self, now: u64) {
        self.timers.orphaned_at = Some(now);
    }

    /// Number of bytes that can be read.
    #[must_use]
    pub const fn readable(&self) -> u32 {
        self.receiving.buffer.ready()
    }

    /// True if the peer's FIN and all data before it have arrived.
    #[must_use]
    pub const fn is_read_closed(&self) -> bool {
        self.receiving.is_finished
    }

    /// Number of bytes that can be written.
    #[must_use]
    pub const fn writable(&self) -> u32 {
        if self.can_write() { self.sending.buffer.room() } else { 0 }
    }

    /// True if the handshake is complete, and the owner may write.
    pub(crate) const fn can_write(&self) -> bool {
        matches!(self.state, State::Established | State::CloseWait) && !self.sending.is_closed
    }

    /// Present maximum number of bytes in the receive buffer and in the send buffer.
    #[must_use]
    pub const fn buffer_limits(&self) -> (u32, u32) {
        (self.receiving.buffer.limit(), self.sending.buffer.limit())
    }

    /// Sets the maximum number of bytes in the send buffer, which then no longer grows: `SO_SNDBUF`. Data
    /// already in it stays.
    pub const fn set_send_buffer(&mut self, size: u32) {
        self.sending.max_limit = size;
        self.sending.buffer.set_limit(size);
    }

    /// Sets the maximum number of bytes in the receive buffer, which then no longer grows: `SO_RCVBUF`. The
    /// buffer keeps room for the window that has been advertised.
    pub fn set_receive_buffer(&mut self, size: u32) {
        let receiving = &mut self.receiving;
        let promised = receiving.buffer.ready() + receiving.edge.since(receiving.buffer.next());
        receiving.max_limit = size;
        receiving.buffer.set_limit(size.max(promised));
    }

    /// True if writers are worth waking: more than a third of the send buffer is free, as in Linux.
    #[must_use]
    pub const fn is_roomy(&self) -> bool {
        let buffer = &self.sending.buffer;
        self.can_write() && buffer.room() > buffer.limit() / 3
    }

    /// SND.NXT: the number of the next byte to be sent.
    #[must_use]
    pub const fn send_next(&self) -> Seq {
        self.recovery.nxt()
    }

    /// True if a number is in flight, as the number that an ICMP message quotes must be (RFC 5927 §4.1).
    /// Before the handshake is complete, only the number of a sent SYN is in flight.
    #[must_use]
    pub fn is_in_flight(&self, seq: Seq) -> bool {
        let (una, nxt) = (self.recovery.una(), self.recovery.nxt());
        match self.state {
            State::SynSent | State::SynReceived => seq == self.parameters.iss && seq.is_before(nxt),
            _ => una.is_up_to(seq) && seq.is_before(nxt),
        }
    }

    /// True if a RST must still be sent.
    #[must_use]
    pub const fn has_reset_to_send(&self) -> bool {
        self.resets
    }

    /// True if an acknowledgement must be sent at once.
    #[must_use]
    pub fn is_ack_due(&self, now: u64) -> bool {
        self.ack.is_due(now)
    }

    /// Number of written bytes that are not acknowledged, and true if a FIN is not acknowledged either.
    #[must_use]
    pub fn unacknowledged(&self) -> (u32, bool) {
        let is_fin_open = matches!(self.state, State::FinWait1 | State::Closing | State::LastAck);
        (self.sending.buffer.size(), is_fin_open)
    }

    /// Appends bytes to the send buffer; returns how many fitted.
    pub fn write(&mut self, bytes: &[u8], pool: &mut Pool) -> usize {
        if !self.can_write() {
            return 0;
        }
        if self.sending.buffer.size() <= self.recovery.outstanding() {
            self.recovery.on_source_empty();
        }
        self.sending.buffer.push(bytes, pool)
    }

    /// Passes received bytes to `sink`, piece by piece, until it takes less than a whole piece. `sink`
    /// returns the number of bytes it took. Returns their sum. With `peek` the bytes stay in the buffer.
    pub fn read(
        &mut self,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
        pool: &mut Pool,
        now: u64,
    ) -> u32 {
        let taken = self.receiving.buffer.read(peek, sink, pool);
        if !peek && taken > 0 {
            if !pool.is_scarce() {
                self.tune_receive_buffer(taken, now);
            }
            self.update_window();
        }
        taken
    }

    /// Grows the receive buffer with the bytes that the owner reads in a round trip (dynamic right-sizing).
    /// The window must have room for four times these bytes: they were sent a round trip ago, and slow start
    /// doubles the volume in each round trip.
    fn tune_receive_buffer(&mut self, taken: u32, now: u64) {
        let receiving = &mut self.receiving;
        receiving.read = receiving.read.saturating_add(taken);
        let round = self.recovery.rtt().smoothed().unwrap_or(100 * MS).max(MS);
        if now.saturating_sub(receiving.read_since) < round {
            return;
        }
        let wanted = receiving.read.saturating_mul(4).min(receiving.max_limit);
        if wanted > receiving.buffer.limit() {
            receiving.buffer.set_limit(wanted);
        }
        (receiving.read, receiving.read_since) = (0, now);
    }

    /// Asks for an acknowledgement when reading has doubled the window that the peer knows of.
    fn update_window(&mut self) {
        let receiving = &mut self.receiving;
        // The peer may know of a smaller window than was promised: see `window_field`.
        let promised = receiving.edge.since(receiving.buffer.next()) >> receiving.scale;
        let known = if core::mem::take(&mut receiving.lacks_memory) { 0 } else { promised };
        let window = u32::from(self.window_field());
        let is_worth = window >= known.saturating_mul(2) && window > known;
        if is_worth && !self.receiving.is_finished && self.is_synchronized() {
            self.ack.set_due();
        }
    }

    /// Closes the sending half: a FIN follows the data.
    pub const fn close(&mut self) {
        self.sending.is_closed = true;
        self.state = match self.state {
            State::Established => State::FinWait1,
            State::CloseWait => State::LastAck,
            state => state,
        };
    }

    /// Ends the connection, and sends a RST if the peer knows of the connection.
    pub fn abort(&mut self, pool: &mut Pool) {
        self.resets =
            self.is_synchronized() && self.state != State::TimeWait || self.state == State::SynReceived;
        self.end(None, pool);
    }

    /// Frees all buffers. The connection must not be used any more.
    pub fn release(&mut self, pool: &mut Pool) {
        self.sending.buffer.clear(pool);
        self.recovery.clear(pool);
        self.receiving.buffer.clear(pool);
    }

    /// Ends the connection. Received data can still be read.
    pub(crate) fn end(&mut self, failure: Option<Failure>, pool: &mut Pool) {
        self.state = State::Closed;
        self.failure = self.failure.or(failure);
        self.sending.buffer.clear(pool);
        self.recovery.clear(pool);
    }

    /// True if both ends know each other's sequence numbers.
    pub(crate) const fn is_synchronized(&self) -> bool {
        !matches!(self.state, State::SynSent | State::SynReceived | State::Closed)
    }

    /// True if the peer may still send data and a FIN.
    pub(crate) const fn can_receive(&self) -> bool {
        matches!(self.state, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// RCV.NXT: the number that is expected next.
    #[must_use]
    pub fn receive_next(&self) -> Seq {
        self.receiving.buffer.next() + u32::from(self.receiving.is_finished)
    }

    /// The timestamp clock: milliseconds.
    pub(crate) fn clock(&self, now: u64) -> u32 {
        let milliseconds = u32::try_from((now / MS) & u64::from(u32::MAX)).unwrap_or(0);
        self.parameters.clock_offset.wrapping_add(milliseconds)
    }

    /// Returns the time at which this end sent a timestamp, in nanoseconds rounded down to milliseconds.
    pub(crate) fn clock_time(&self, value: u32, now: u64) -> Option<u64> {
        let age = self.clock(now).wrapping_sub(value);
        // An echo from the future is invalid.
        (age < u32::MAX / 2).then(|| (now / MS).saturating_sub(u64::from(age)) * MS)
    }

    /// The timestamp option of a segment that is sent now.
    pub(crate) fn timestamp(&self, now: u64) -> Option<Timestamp> {
        self.timestamps.map(|timestamps| Timestamp { value: self.clock(now), echo: timestamps.recent })
    }

    /// Window to be advertised, in bytes: the room in the buffer. The window does not shrink below the window
    /// that was promised, and does not grow in small steps (silly window syndrome, RFC 9293 §3.8.6.2.2).
    pub(crate) fn window_to_advertise(&self) -> u32 {
        let receiving = &self.receiving;
        let known = receiving.edge.since(receiving.buffer.next());
        let room = receiving.buffer.room().min(u32::from(u16::MAX) << receiving.scale);
        let step = (receiving.buffer.limit() / 2).min(receiving.mss);
        if room < known.saturating_add(step) { known } else { room }
    }

    /// The window field of a segment: the window to be advertised, in units of the window scale.
    pub(crate) fn window_field(&self) -> u16 {
        let (window, scale) = (self.window_to_advertise(), self.receiving.scale);
        if self.receiving.lacks_memory {
            return 0;
        }
        // A promised window that is not a multiple of the unit is rounded up if there is room, so that it
        // does not shrink. Otherwise it is rounded down (RFC 7323 §2.4): its last bytes are accepted, but not
        // advertised again.
        let rounded_up = (window + (1 << scale) - 1) >> scale;
        let is_stored = rounded_up << scale <= self.receiving.buffer.room();
        let field = if is_stored { rounded_up } else { window >> scale };
        u16::try_from(field).unwrap_or(u16::MAX)
    }
}

/// Returns the scale with which a window of `size` bytes can be advertised (RFC 7323 §2.3).
const fn window_scale(size: u32) -> u8 {
    let mut scale = 0;
    while scale < MAX_SCALE && (u16::MAX as u32) << scale < size {
        scale += 1;
    }
    scale
}

/// Maximum window scale (RFC 7323 §2.3).
pub(crate) const MAX_SCALE: u8 = 14;
