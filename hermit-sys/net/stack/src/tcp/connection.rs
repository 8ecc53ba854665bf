//! A connection: its state machine, and the state of its socket.

use hermit_interface::Errno;
use hermit_tcp::{Events, KeepAlive, State};
#[cfg(test)]
use smoltcp::wire::TcpSeqNumber;

use crate::socket::address::Tuple;
use crate::socket::buffers::BufferAccounting;
use crate::socket::kind::Shutdown;
use crate::socket::options::SocketSettings;
use crate::socket::readiness::Readiness;
use crate::tcp::path::Path;

/// Number of written bytes from which on they are not held back to be coalesced with more.
const CORK: usize = 32 << 10;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Phase of a connection, as its socket sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Active open, not yet answered.
    Connecting,
    /// Passive open of a listener; the peer has not acknowledged the SYN-ACK.
    HalfOpen { listener: u32 },
    /// In the accept queue of a listener.
    Queued { listener: u32 },
    /// It has, or had, a socket.
    Open,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) tcp: hermit_tcp::Connection,
    pub(crate) tuple: Tuple,
    pub(crate) path: Path,
    /// Time in nanoseconds at which the handshake started.
    pub(crate) started: u64,
    /// Whether DF is clear: a router has reported a path MTU below the minimum.
    pub(crate) may_be_fragmented: bool,
    pub(crate) phase: Phase,
    /// Whether the connection is closed, except for a RST that is to be sent.
    pub(crate) is_over: bool,
    /// Whether the connection is in the tables.
    pub(crate) is_mapped: bool,
    /// Whether `connect` has reported that the connection is established.
    pub(crate) is_reported: bool,
    /// Whether the SYN was retransmitted because the peer had an earlier connection in TIME-WAIT.
    pub(crate) has_repeated_syn: bool,
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
    /// Bytes written since the last transmission.
    pub(crate) held: usize,
    /// Whether those bytes are held back until the device has sent its frames.
    pub(crate) is_corked: bool,
    /// Whether the connection is in the list of those that wait for room in the transmit queue of the device.
    pub(crate) is_blocked: bool,
    /// Slot in which the other end of a connection within this host was last.
    pub(crate) peer: Option<u32>,
    /// Whether the connection is queued to be served.
    pub(crate) is_dirty: bool,
    /// Bytes that were not acknowledged when the socket was closed.
    pub(crate) orphaned: usize,
    /// Whether the last write found all memory in use, and none has been freed since.
    pub(crate) is_refused: bool,
}

/// State before a segment, to detect what the segment changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    pub(crate) state: State,
    pub(crate) readable: u32,
}

impl Connection {
    pub(crate) const fn new(
        tcp: hermit_tcp::Connection,
        tuple: Tuple,
        path: Path,
        phase: Phase,
        started: u64,
    ) -> Self {
        Self {
            tcp,
            tuple,
            path,
            started,
            may_be_fragmented: false,
            phase,
            is_over: false,
            is_mapped: false,
            is_reported: false,
            has_repeated_syn: false,
            shut_read: false,
            shut_write: false,
            held: 0,
            is_corked: false,
            is_blocked: false,
            peer: None,
            is_dirty: false,
            orphaned: 0,
            is_refused: false,
        }
    }

    /// Applies the socket options.
    pub(crate) fn apply(&mut self, settings: &SocketSettings) {
        self.tcp.options().no_delay = settings.no_delay;
        self.tcp.set_quick_ack(settings.quick_ack);
        let user_timeout = u64::from(settings.user_timeout) * MILLISECOND;
        self.tcp.set_user_timeout(Some(user_timeout).filter(|&timeout| timeout > 0));
        self.tcp.set_keep_alive(settings.keep_alive.then(|| KeepAlive {
            idle: u64::from(settings.keep_alive_idle) * SECOND,
            interval: u64::from(settings.keep_alive_interval) * SECOND,
            count: settings.keep_alive_count,
        }));
    }

    /// Whether the connection may have segments to send: it is not over, or has a RST to send.
    pub(crate) const fn is_sending(&self) -> bool {
        !self.is_over || self.tcp.has_reset_to_send()
    }

    /// Whether written bytes are few enough to be held back until the device has sent its frames.
    pub(crate) const fn may_be_corked(&self) -> bool {
        self.held < CORK
    }

    /// Whether written bytes are held back, or wait for an acknowledgement.
    pub(crate) fn is_held_back(&self) -> bool {
        self.is_corked && self.may_be_corked() || self.tcp.is_held_back()
    }

    pub(crate) const fn state(&self) -> State {
        self.tcp.state()
    }

    /// `SND.NXT` and `RCV.NXT`.
    #[cfg(test)]
    pub(crate) fn numbers(&self) -> (TcpSeqNumber, TcpSeqNumber) {
        [self.tcp.send_next(), self.tcp.receive_next()].map(|seq| TcpSeqNumber(seq.0.cast_signed())).into()
    }

    /// Whether the receive direction is closed.
    pub(crate) const fn is_read_over(&self) -> bool {
        self.is_over || self.shut_read || self.tcp.is_read_closed()
    }

    /// Shuts down one or both directions.
    pub(crate) const fn shut(&mut self, how: Shutdown) {
        self.shut_read |= how.reads();
        self.shut_write |= how.writes();
        if self.shut_write {
            self.tcp.close();
        }
    }

    /// Whether a segment has brought data after both directions were shut down, which resets the peer (RFC
    /// 1122 §4.2.2.13).
    pub(crate) const fn is_received_after_shutdown(&self, before: Snapshot) -> bool {
        self.shut_read && self.shut_write && self.tcp.readable() > before.readable
    }

    /// Whether the handshake has been completed.
    pub(crate) const fn is_established(&self) -> bool {
        !matches!(self.phase, Phase::Connecting | Phase::HalfOpen { .. })
    }

    /// Whether written data or a FIN is not acknowledged.
    pub(crate) fn is_outstanding(&self) -> bool {
        self.tcp.unacknowledged() != (0, false)
    }

    /// Whether data or a FIN to another host is not acknowledged yet, after the close.
    pub(crate) fn is_undelivered(&self) -> bool {
        let is_missing = if self.is_over { self.tcp.has_reset_to_send() } else { self.is_outstanding() };
        self.path != Path::Local && is_missing
    }

    pub(crate) const fn snapshot(&self) -> Snapshot {
        Snapshot { state: self.state(), readable: self.tcp.readable() }
    }

    /// Whether a segment needs no further handling.
    pub(crate) fn is_settled(&self, before: Snapshot, now: u64) -> bool {
        self.state() == before.state && !self.tcp.may_send(now)
    }

    /// The error of a write for whose bytes there is no room, after which the writer is woken.
    pub(crate) fn refuse(&mut self, slot: u32, buffers: &mut BufferAccounting) -> Errno {
        // A full buffer drains when the peer acknowledges; otherwise others use all memory, or the heap has
        // none.
        let is_full = self.tcp.writable() == 0;
        if !is_full && !self.is_refused {
            self.is_refused = buffers.refuse(slot);
        }
        if is_full || self.is_refused { Errno::EAGAIN } else { Errno::ENOBUFS }
    }

    /// Whether the readiness may have changed, so that waiters are to be woken.
    pub(crate) fn has_news(&self, before: Snapshot, events: Events) -> bool {
        events.intersects(Events::READABLE | Events::WRITABLE) || self.state() != before.state
    }

    /// Readiness as `poll` returns it, by Linux's `tcp_poll`.
    pub(crate) fn readiness(&self, has_error: bool) -> Readiness {
        if !self.is_established() && !self.is_over {
            return Readiness { error: has_error, ..Readiness::default() };
        }
        let read_hang_up = self.is_read_over();
        let is_write_over = self.is_over || self.shut_write;
        Readiness {
            read: read_hang_up || self.tcp.readable() > 0,
            write: is_write_over || (self.tcp.is_roomy() && !self.is_refused),
            hang_up: read_hang_up && is_write_over,
            read_hang_up,
            error: has_error,
        }
    }

    /// Whether a SYN of this number may replace the connection, as in TIME-WAIT (RFC 9293 §3.10.7.4): passt
    /// forgets a connection as soon as it has sent the FIN. If that FIN is lost, the connection stays in
    /// FIN-WAIT-2, in which one without a socket has nothing to receive.
    pub(crate) fn may_end_before(&self, syn: hermit_tcp::Seq, is_orphan: bool) -> bool {
        let is_done = match self.state() {
            State::TimeWait => true,
            State::FinWait2 => is_orphan,
            _ => false,
        };
        is_done && self.tcp.receive_next().is_before(syn)
    }
}
