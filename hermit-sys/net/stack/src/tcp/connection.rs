//! One connection: its state machine, and what sockets keep besides.

use hermit_tcp::{Events, KeepAlive, State};
#[cfg(test)]
use smoltcp::wire::TcpSeqNumber;

use crate::address::Tuple;
use crate::options::Settings;
use crate::socket::{Readiness, Shutdown};
use crate::tcp::path::Path;

const SECOND: u64 = 1_000_000_000;

/// How far a connection has come, from the point of view of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Begun by this host, not yet answered.
    Connecting,
    /// Begun by a peer, which has not acknowledged the SYN-ACK; it belongs to a listener.
    HalfOpen { listener: u32 },
    /// It waits to be accepted.
    Queued { listener: u32 },
    /// It has, or had, an owner.
    Open,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) tcp: hermit_tcp::Connection,
    pub(crate) tuple: Tuple,
    pub(crate) path: Path,
    /// Time in nanoseconds at which it began.
    pub(crate) started: u64,
    /// Routers may fragment its packets: one of them takes smaller ones than any host should have to send.
    pub(crate) may_be_fragmented: bool,
    pub(crate) phase: Phase,
    /// Nothing is sent any more, but for a RST, and nothing received.
    pub(crate) is_over: bool,
    /// The tables have it.
    pub(crate) is_mapped: bool,
    /// Its owner was told that it is established.
    pub(crate) is_told: bool,
    /// The SYN was repeated, since the peer remembered an earlier connection.
    pub(crate) has_repeated_syn: bool,
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
    /// Bytes that were written since something was last sent.
    pub(crate) held: usize,
    /// They wait for the device.
    pub(crate) is_corked: bool,
}

/// What may have changed after a segment was received.
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
            is_told: false,
            has_repeated_syn: false,
            shut_read: false,
            shut_write: false,
            held: 0,
            is_corked: false,
        }
    }

    /// Takes over the options of its socket.
    pub(crate) fn apply(&mut self, settings: &Settings) {
        self.tcp.options().no_delay = settings.no_delay;
        self.tcp.set_keep_alive(settings.keep_alive.then(|| KeepAlive {
            idle: u64::from(settings.keep_alive_idle) * SECOND,
            interval: u64::from(settings.keep_alive_interval) * SECOND,
            count: settings.keep_alive_count,
        }));
    }

    pub(crate) const fn state(&self) -> State {
        self.tcp.state()
    }

    /// The numbers that this host sends next, and that it expects.
    #[cfg(test)]
    pub(crate) fn numbers(&self) -> (TcpSeqNumber, TcpSeqNumber) {
        [self.tcp.send_next(), self.tcp.receive_next()].map(|seq| TcpSeqNumber(seq.0.cast_signed())).into()
    }

    /// Whether the peer sends no more, or nothing more is received.
    pub(crate) const fn is_read_over(&self) -> bool {
        self.is_over || self.shut_read || self.tcp.is_read_closed()
    }

    /// Shuts halves of it down.
    pub(crate) const fn shut(&mut self, how: Shutdown) {
        self.shut_read |= how.reads();
        self.shut_write |= how.writes();
        if self.shut_write {
            self.tcp.close();
        }
    }

    /// Whether data has come that nobody will read: the peer is to be told (RFC 1122 §4.2.2.13).
    pub(crate) const fn is_in_vain(&self, before: Snapshot) -> bool {
        self.shut_read && self.shut_write && self.tcp.readable() > before.readable
    }

    /// Whether the handshake has been completed.
    pub(crate) const fn is_established(&self) -> bool {
        !matches!(self.phase, Phase::Connecting | Phase::HalfOpen { .. })
    }

    /// Whether data or a FIN was sent, or is to be, that is not acknowledged.
    pub(crate) fn is_outstanding(&self) -> bool {
        self.tcp.unacknowledged() != (0, false)
    }

    /// Whether another host lacks something that was sent to it before the connection was closed.
    pub(crate) fn is_owed(&self) -> bool {
        let is_missing = if self.is_over { self.tcp.has_reset_to_send() } else { self.is_outstanding() };
        self.path != Path::Local && is_missing
    }

    pub(crate) const fn snapshot(&self) -> Snapshot {
        Snapshot { state: self.state(), readable: self.tcp.readable() }
    }

    /// Whether a segment has left nothing to be done but to wait.
    pub(crate) fn is_settled(&self, before: Snapshot, now: u64) -> bool {
        self.state() == before.state && !self.tcp.may_send(now)
    }

    /// Whether who waits for the socket has reason to look again.
    pub(crate) fn has_news(&self, before: Snapshot, events: Events) -> bool {
        events.intersects(Events::READABLE | Events::WRITABLE) || self.state() != before.state
    }

    /// What `poll` says, as Linux's `tcp_poll`.
    pub(crate) fn readiness(&self, has_error: bool) -> Readiness {
        if !self.is_established() && !self.is_over {
            return Readiness { error: has_error, ..Readiness::default() };
        }
        let read_hang_up = self.is_read_over();
        let is_write_over = self.is_over || self.shut_write;
        Readiness {
            read: read_hang_up || self.tcp.readable() > 0,
            write: is_write_over || self.tcp.is_roomy(),
            hang_up: read_hang_up && is_write_over,
            read_hang_up,
            error: has_error,
        }
    }

    /// Whether the peer may begin another connection with a SYN of this number, as in TIME-WAIT (RFC 9293 §3.10.7.4):
    /// passt forgets a connection as soon as it has sent the FIN. If that was lost, FIN-WAIT-2 is left, in which a connection
    /// without an owner has nothing to receive.
    pub(crate) fn may_end_before(&self, syn: hermit_tcp::Seq, is_orphan: bool) -> bool {
        let is_done = match self.state() {
            State::TimeWait => true,
            State::FinWait2 => is_orphan,
            _ => false,
        };
        is_done && self.tcp.receive_next().is_before(syn)
    }
}
