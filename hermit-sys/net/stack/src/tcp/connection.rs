//! A connection of the stack: its TCP state machine, and the state that belongs to its socket.
//!
//! `hermit_tcp::Connection` knows neither addresses nor sockets nor the device. This type adds them: the
//! addresses and ports, the path, the phase (half-open, in an accept queue, open), and flags. The flags
//! record in which queues of its shard the connection is, and what its socket has reported to the program. A
//! connection may outlive its socket (orphan), until its data is acknowledged.

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

/// Number of written bytes that are sent at once. Fewer bytes may be held back, to be coalesced with later
/// ones.
const CORK: usize = 32 << 10;

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000_000_000;

/// Phase of a connection from the view of its socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Active open without an answer yet.
    Connecting,
    /// Passive open of a listener; the peer has not acknowledged the SYN-ACK.
    HalfOpen { listener: u32 },
    /// In the accept queue of a listener.
    Queued { listener: u32 },
    /// Open: it has a socket, or had one.
    Open,
}

/// A connection, with or without a socket.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) tcp: hermit_tcp::Connection,
    pub(crate) tuple: Tuple,
    pub(crate) path: Path,
    /// Time in nanoseconds at which the handshake started.
    pub(crate) started: u64,
    /// True if DF is clear, because a router has reported a path MTU below the minimum.
    pub(crate) may_be_fragmented: bool,
    pub(crate) phase: Phase,
    /// True if the connection is closed. A RST may still have to be sent.
    pub(crate) is_over: bool,
    /// True if the connection is in the tables.
    pub(crate) is_mapped: bool,
    /// True if `connect` has reported that the connection is established.
    pub(crate) is_reported: bool,
    /// True if the SYN was retransmitted because the peer had an earlier connection.
    pub(crate) has_repeated_syn: bool,
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
    /// Bytes written since the last transmission.
    pub(crate) held: usize,
    /// True if the bytes that `held` counts are held back until the device has sent its frames.
    pub(crate) is_corked: bool,
    /// True if the connection is in the list of connections that wait for room in the device's transmit
    /// queue.
    pub(crate) is_blocked: bool,
    /// Last known slot of the other end of a connection within this host.
    pub(crate) peer: Option<u32>,
    /// True if the connection is in the queue of connections to be served.
    pub(crate) is_dirty: bool,
    /// Number of bytes that were not acknowledged when the socket was closed.
    pub(crate) orphaned: usize,
    /// True if the last write found all memory in use, and none has been freed since.
    pub(crate) is_refused: bool,
}

/// State before a segment, used to detect changes by the segment.
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

    /// True if the connection may have segments to send: it is not closed, or must send a RST.
    pub(crate) const fn is_sending(&self) -> bool {
        !self.is_over || self.tcp.has_reset_to_send()
    }

    /// True if the written bytes are few enough to be held back until the device has sent its frames.
    pub(crate) const fn may_be_corked(&self) -> bool {
        self.held < CORK
    }

    /// True if written bytes are held back, or wait for an acknowledgement.
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

    /// True if the receive direction is closed.
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

    /// True if a segment has brought data after both directions were shut down. The peer is then reset (RFC
    /// 1122 §4.2.2.13).
    pub(crate) const fn is_received_after_shutdown(&self, before: Snapshot) -> bool {
        self.shut_read && self.shut_write && self.tcp.readable() > before.readable
    }

    /// True if the handshake has been completed.
    pub(crate) const fn is_established(&self) -> bool {
        !matches!(self.phase, Phase::Connecting | Phase::HalfOpen { .. })
    }

    /// True if written data or a FIN is not acknowledged.
    pub(crate) fn is_outstanding(&self) -> bool {
        self.tcp.unacknowledged() != (0, false)
    }

    /// True if data or a FIN to another host is not acknowledged yet. Called after the close.
    pub(crate) fn is_undelivered(&self) -> bool {
        let is_missing = if self.is_over { self.tcp.has_reset_to_send() } else { self.is_outstanding() };
        self.path != Path::Local && is_missing
    }

    pub(crate) const fn snapshot(&self) -> Snapshot {
        Snapshot { state: self.state(), readable: self.tcp.readable() }
    }

    /// True if a segment needs no further handling.
    pub(crate) fn is_settled(&self, before: Snapshot, now: u64) -> bool {
        self.state() == before.state && !self.tcp.may_send(now)
    }

    /// Returns the error of a write that found no room for its bytes. Unless it is `ENOBUFS`, the writer is
    /// woken when there is room.
    pub(crate) fn refuse(&mut self, slot: u32, buffers: &mut BufferAccounting) -> Errno {
        // A full send buffer drains when the peer acknowledges data. If the buffer is not full, memory is
        // missing: other buffers use all memory of the pool, or the heap is exhausted.
        let is_full = self.tcp.writable() == 0;
        if !is_full && !self.is_refused {
            self.is_refused = buffers.refuse(slot);
        }
        if is_full || self.is_refused { Errno::EAGAIN } else { Errno::ENOBUFS }
    }

    /// True if the readiness may have changed, so that waiters must be woken.
    pub(crate) fn has_news(&self, before: Snapshot, events: Events) -> bool {
        events.intersects(Events::READABLE | Events::WRITABLE) || self.state() != before.state
    }

    /// Readiness as `poll` returns it, like Linux's `tcp_poll`.
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

    /// True if a SYN of this number may replace the connection, as in TIME-WAIT (RFC 9293 §3.10.7.4). passt
    /// drops a connection as soon as it has sent the FIN. If this FIN is lost, the connection stays in
    /// FIN-WAIT-2. Without a socket it has nothing to receive there, and may be replaced.
    pub(crate) fn may_end_before(&self, syn: hermit_tcp::Seq, is_orphan: bool) -> bool {
        let is_done = match self.state() {
            State::TimeWait => true,
            State::FinWait2 => is_orphan,
            _ => false,
        };
        is_done && self.tcp.receive_next().is_before(syn)
    }
}
