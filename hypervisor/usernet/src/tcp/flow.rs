//! State of a TCP flow.
//!
//! A flow joins two connections: one between the guest and this network, and one between a socket of the host
//! and the peer. Between guest and network no segment is lost, unless the guest has no memory for it. So this
//! end of the guest's connection is simple: it has no congestion control, and after a timeout it retransmits
//! everything that is not acknowledged.
//!
//! Bytes for the guest stay in the socket until the guest has acknowledged them. A peek copies them to the
//! guest's memory, and another peek does so again for a retransmission. Bytes from the guest go directly from
//! the guest's memory to the socket. The flow keeps only bytes that the socket does not take, up to the
//! advertised window.

use std::collections::VecDeque;

use hermit_tcp::Seq;

use crate::parse::{Ends, Segment};

/// Window that is advertised to the guest, in bytes.
pub(crate) const WINDOW: u32 = 1 << 20;

/// If fewer than this number of bytes remain of a window, it counts as nearly used up. The value is less than
/// the window of a SYN, which is not scaled (64 KiB).
const LITTLE: u32 = 48 * 1024;

/// Window scale of this end, with which [`WINDOW`] fits into 16 bits.
pub(crate) const SCALE: u8 = 5;

/// Maximum window scale (RFC 7323 §2.3).
const MAX_SCALE: u8 = 14;

/// Maximum segment size of a guest that announces none (RFC 9293 §3.7.1).
const DEFAULT_MSS: u16 = 536;

/// Minimum value of a guest's maximum segment size: with a smaller value, packets would mostly consist of
/// headers.
const MIN_MSS: u16 = 64;

/// Initial retransmission timeout in nanoseconds.
pub(crate) const RETRANSMISSION_TIMEOUT: u64 = 1_000_000_000;

/// Number of retransmissions after which a flow is given up, and the same for a SYN to the guest.
pub(crate) const MAX_ATTEMPTS: u8 = 8;
pub(crate) const MAX_SYN_ATTEMPTS: u8 = 5;

/// Progress of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The guest has sent a SYN, and the socket connects.
    Connecting,
    /// The socket is connected, and the guest's SYN is answered with a SYN and an acknowledgement.
    SynReceived,
    /// A listener has accepted the socket, and the flow sends a SYN to the guest.
    SynSent,
    /// Data flows.
    Established,
}

/// Time at which an acknowledgement must be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AckDue {
    #[default]
    No,
    /// After a short delay, or with the next data.
    Delayed,
    Now,
}

/// Direction from the socket to the guest.
#[derive(Debug)]
pub(crate) struct Outgoing {
    /// SND.UNA and SND.NXT.
    pub(crate) una: Seq,
    pub(crate) nxt: Seq,
    /// Sequence number after the last one that was ever sent. While data is retransmitted, [`Self::nxt`] is
    /// smaller.
    pub(crate) max: Seq,
    /// Sequence number after the last one that the guest's window permits.
    pub(crate) edge: Seq,
    /// Window scale and maximum segment size of the guest.
    pub(crate) scale: u8,
    pub(crate) mss: u16,
    /// True if the socket may have bytes to read. False after the socket was found empty, until its next
    /// event.
    pub(crate) is_readable: bool,
    /// True if the peer has ended the stream, or the connection has failed. Reading continues up to the end.
    pub(crate) has_hung_up: bool,
    /// Sequence number of the FIN, once the end of the stream was read.
    pub(crate) fin: Option<Seq>,
    /// Number of acknowledged bytes that are still at the front of the socket, and number of acknowledgements
    /// since the last discard.
    pub(crate) acknowledged: u32,
    pub(crate) deferrals: u8,
    /// Number of bytes that were peeked at since the socket was last empty.
    pub(crate) burst: u32,
    /// Number of duplicate acknowledgements, which acknowledge nothing new while data is in flight.
    pub(crate) duplicates: u8,
    /// Time of the next retransmission of the data in flight, and number of retransmissions so far.
    pub(crate) retransmit_at: Option<u64>,
    pub(crate) attempts: u8,
    /// True if a SYN or a window probe must be sent.
    pub(crate) is_due: bool,
}

/// Direction from the guest to the socket.
#[derive(Debug)]
pub(crate) struct Incoming {
    /// RCV.NXT.
    pub(crate) nxt: Seq,
    /// Sequence number after the window, and the same as the last segment for the guest has advertised it.
    pub(crate) edge: Seq,
    pub(crate) advertised: Seq,
    /// RCV.NXT in the last segment for the guest.
    pub(crate) acknowledged: Seq,
    pub(crate) scale: u8,
    /// Bytes that the socket has not taken.
    pub(crate) pending: VecDeque<u8>,
    /// True if the socket may take bytes. False after it has refused bytes, until its next event.
    pub(crate) is_writable: bool,
    /// True if the guest has sent its FIN; true if the socket was shut down for writing.
    pub(crate) has_ended: bool,
    pub(crate) is_shut_down: bool,
    pub(crate) ack: AckDue,
    /// True if the flow is in the list of delayed acknowledgements.
    pub(crate) is_listed: bool,
}

/// TCP flow.
#[derive(Debug)]
pub(crate) struct Flow<S> {
    pub(crate) stream: S,
    pub(crate) ends: Ends,
    pub(crate) phase: Phase,
    pub(crate) outgoing: Outgoing,
    pub(crate) incoming: Incoming,
    /// True if the flow is in the queue of flows that may have a segment for the guest.
    pub(crate) is_queued: bool,
    /// The listener that has accepted the client; `None` for a flow that the guest has opened.
    pub(crate) listener: Option<usize>,
}

impl<S> Flow<S> {
    /// Creates a flow that the guest opens with `syn`. `iss` is the initial sequence number of this end.
    pub(crate) fn from_guest(stream: S, syn: &Segment, iss: Seq) -> Self {
        let mut flow = Self::new(stream, syn.ends, Phase::Connecting, iss);
        flow.take_syn(syn);
        flow
    }

    /// Creates the flow of a client that a listener has accepted.
    pub(crate) fn from_client(stream: S, ends: Ends, listener: usize, iss: Seq) -> Self {
        let mut flow = Self::new(stream, ends, Phase::SynSent, iss);
        flow.outgoing.is_due = true;
        flow.listener = Some(listener);
        flow
    }

    fn new(stream: S, ends: Ends, phase: Phase, iss: Seq) -> Self {
        let outgoing = Outgoing {
            una: iss,
            nxt: iss,
            max: iss,
            edge: iss + 1,
            scale: 0,
            mss: DEFAULT_MSS,
            is_readable: false,
            has_hung_up: false,
            fin: None,
            acknowledged: 0,
            deferrals: 0,
            burst: 0,
            duplicates: 0,
            retransmit_at: None,
            attempts: 0,
            is_due: false,
        };
        let incoming = Incoming {
            nxt: Seq(0),
            edge: Seq(0),
            advertised: Seq(0),
            acknowledged: Seq(0),
            scale: 0,
            pending: VecDeque::new(),
            is_writable: true,
            has_ended: false,
            is_shut_down: false,
            ack: AckDue::No,
            is_listed: false,
        };
        Self { stream, ends, phase, outgoing, incoming, is_queued: false, listener: None }
    }

    /// Applies the options and the sequence number of the guest's SYN.
    pub(crate) fn take_syn(&mut self, syn: &Segment) {
        let has_scale = syn.window_scale.is_some();
        self.outgoing.scale = syn.window_scale.unwrap_or(0).min(MAX_SCALE);
        self.outgoing.mss = syn.mss.filter(|&mss| mss >= MIN_MSS).unwrap_or(DEFAULT_MSS);
        // The window of a SYN is not scaled. It begins after the SYN of this end, which takes one sequence
        // number.
        let start = if self.phase == Phase::SynSent { self.outgoing.una } else { self.outgoing.una + 1 };
        self.outgoing.edge = start + u32::from(syn.window);
        self.incoming.scale = if has_scale { SCALE } else { 0 };
        self.incoming.nxt = syn.seq + 1;
        self.incoming.acknowledged = self.incoming.nxt;
        (self.incoming.edge, self.incoming.advertised) = (self.incoming.nxt, self.incoming.nxt);
        self.incoming.open_window();
    }

    /// Enters [`Phase::Established`].
    pub(crate) fn establish(&mut self, now: u64) {
        self.phase = Phase::Established;
        self.outgoing.is_readable = true;
        (self.outgoing.is_due, self.outgoing.attempts) = (false, 0);
        self.outgoing.restart_timer(now);
    }

    /// Returns true if both directions have ended, and the guest has acknowledged the FIN of this end.
    pub(crate) fn is_over(&self) -> bool {
        let Outgoing { fin, una, .. } = self.outgoing;
        self.incoming.is_shut_down && fin.is_some_and(|fin| fin.is_before(una))
    }

    /// Returns true if the flow is not established yet.
    pub(crate) fn is_half_open(&self) -> bool {
        self.phase != Phase::Established
    }
}

impl Outgoing {
    /// Returns the number of bytes of data in flight, without SYN and FIN.
    pub(crate) fn in_flight(&self) -> u32 {
        let has_fin = self.fin.is_some_and(|fin| self.una.is_up_to(fin) && fin.is_before(self.nxt));
        self.nxt.since(self.una) - u32::from(has_fin)
    }

    /// Advances [`Self::nxt`] by `length` sequence numbers, which are sent.
    pub(crate) fn advance(&mut self, length: u32, now: u64) {
        self.nxt = self.nxt + length;
        self.burst = self.burst.saturating_add(length);
        self.max = self.max.max(self.nxt);
        if self.retransmit_at.is_none() {
            self.restart_timer(now);
        }
    }

    /// Returns the number of bytes that the guest's window still permits.
    pub(crate) fn window(&self) -> u32 {
        self.edge.since(self.nxt)
    }

    /// Restarts the retransmission timer if data is in flight, otherwise stops it.
    pub(crate) fn restart_timer(&mut self, now: u64) {
        self.retransmit_at = (self.una != self.nxt).then_some(now + self.timeout());
    }

    /// Starts the timer of window probes, unless it runs.
    pub(crate) fn start_probe_timer(&mut self, now: u64) {
        let at = now + self.timeout();
        self.retransmit_at.get_or_insert(at);
    }

    /// Returns the time until the next retransmission. It doubles with each attempt.
    fn timeout(&self) -> u64 {
        RETRANSMISSION_TIMEOUT << self.attempts.min(MAX_ATTEMPTS)
    }
}

impl Incoming {
    /// Advances the edge of the receive window as far as there is room for kept bytes. The edge never moves
    /// back (RFC 9293 §3.8.6).
    pub(crate) fn open_window(&mut self) {
        let kept = u32::try_from(self.pending.len()).unwrap_or(u32::MAX);
        let max = u32::from(u16::MAX) << self.scale;
        self.edge = self.edge.max(self.nxt + WINDOW.saturating_sub(kept).min(max));
    }

    /// Returns true if a window update must be sent: the guest has nearly used up the advertised window, and
    /// the current window is larger by at least a quarter of the maximum.
    pub(crate) fn is_window_news(&self) -> bool {
        let largest = WINDOW.min(u32::from(u16::MAX) << self.scale);
        self.advertised.since(self.nxt) < LITTLE && self.edge.since(self.advertised) >= largest / 4
    }

    /// Returns the window as in a segment's header, scaled down.
    pub(crate) fn window(&self) -> u16 {
        u16::try_from(self.edge.since(self.nxt) >> self.scale).unwrap_or(u16::MAX)
    }
}
