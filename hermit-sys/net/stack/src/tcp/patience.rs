//! How long a connection is given to do what it should: smoltcp's own limits do not tell an idle peer from a dead one.

use hermit_interface::Errno;
use smoltcp::socket::tcp::State;
use smoltcp::time::Duration;

use crate::core::{Core, Entry};
use crate::host::Host;
use crate::options::Settings;
use crate::tcp::connection::{Connection, Phase};

const SECOND: u64 = 1_000_000_000;

/// Until a peer answers a first segment: as long as Linux takes for its 6 repetitions (`tcp_syn_retries`).
const CONNECTING: u64 = 127 * SECOND;

/// Until a peer completes the handshake: 5 repetitions (`tcp_synack_retries`).
const HALF_OPEN: u64 = 63 * SECOND;

/// Until a peer acknowledges anything: 15 repetitions (`tcp_retries2`); without an owner fewer.
const SENDING: u64 = 924 * SECOND;
const ORPHANED: u64 = 100 * SECOND;

/// Until a peer closes its half of a connection that has no owner any more (`tcp_fin_timeout`).
const HALF_CLOSED: u64 = 60 * SECOND;

/// When a peer that does not say whether it takes more is asked for the first time, and how often.
const INQUIRING: u64 = SECOND / 5;
const INQUIRY: Duration = Duration::from_secs(5);

/// When things happened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    started: u64,
    /// When the peer was last heard of.
    heard: u64,
    /// When it last acknowledged something, or said that it takes nothing now.
    progress: u64,
    /// Since when something is not acknowledged.
    outstanding: Option<u64>,
    /// Since when only the peer's end is missing.
    half_closed: Option<u64>,
    /// It is being asked whether the peer is there.
    is_probing: bool,
}

/// What is to be done when time is up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// It never came to be.
    Fail,
    /// It is forgotten without a word.
    Forget,
    /// The peer is reset, in case it hears of it.
    Abort,
    /// The peer is asked whether it is there.
    Probe,
}

const fn seconds(count: u32) -> u64 {
    (count as u64).saturating_mul(SECOND)
}

impl Patience {
    pub(crate) const fn new(now: u64) -> Self {
        Self {
            started: now,
            heard: now,
            progress: now,
            outstanding: None,
            half_closed: None,
            is_probing: false,
        }
    }

    /// The peer has done what is waited for, at least in part.
    pub(crate) const fn note_progress(&mut self, now: u64) {
        self.progress = now;
    }

    /// When the connection began.
    pub(crate) const fn started(&self) -> u64 {
        self.started
    }
}

impl Entry {
    /// The peer was heard of.
    pub(crate) fn note_heard(&mut self, now: u64) {
        let Some(connection) = self.connection_mut() else { return };
        connection.patience.heard = now;
        if core::mem::take(&mut connection.patience.is_probing) {
            connection.channel.socket_mut().set_keep_alive(None);
        }
    }

    /// Takes note of what is waited for, after something may have been sent.
    pub(crate) fn note_waiting(&mut self, now: u64) {
        let Some(connection) = self.connection_mut() else { return };
        let is_outstanding = connection.is_outstanding();
        let is_half_closed = connection.state() == State::FinWait2;
        let patience = &mut connection.patience;
        patience.outstanding = is_outstanding.then(|| patience.outstanding.unwrap_or(now));
        patience.half_closed = is_half_closed.then(|| patience.half_closed.unwrap_or(now));
    }

    /// When patience ends, and what happens then.
    fn step(&self) -> Option<(u64, Step)> {
        let connection = self.connection().filter(|connection| !connection.is_over)?;
        let patience = &connection.patience;
        match connection.phase {
            Phase::Connecting => return Some((patience.started + CONNECTING, Step::Fail)),
            Phase::HalfOpen { .. } => return Some((patience.started + HALF_OPEN, Step::Forget)),
            Phase::Queued { .. } | Phase::Open => (),
        }
        if let Some(since) = patience.outstanding {
            let limit = if self.is_orphan() { ORPHANED } else { SENDING };
            return Some((since.max(patience.progress) + limit, Step::Abort));
        }
        if let Some(since) = patience.half_closed.filter(|_| self.is_orphan()) {
            return Some((since + HALF_CLOSED, Step::Forget));
        }
        self.settings.keep_alive.then(|| patience.keep_alive(&self.settings))
    }

    /// The same without what happens.
    pub(crate) fn patience_ends(&self) -> Option<u64> {
        self.step().map(|(deadline, _)| deadline)
    }
}

impl Patience {
    fn keep_alive(&self, settings: &Settings) -> (u64, Step) {
        let first = self.heard.saturating_add(seconds(settings.keep_alive_idle));
        if !self.is_probing {
            return (first, Step::Probe);
        }
        let questions =
            seconds(settings.keep_alive_interval).saturating_mul(settings.keep_alive_count.into());
        (first.saturating_add(questions), Step::Abort)
    }
}

impl Connection {
    /// Asks the peer for an answer, the first time at once, until it gives one.
    fn question(&mut self, interval: Duration) {
        self.patience.is_probing = true;
        self.channel.socket_mut().set_keep_alive(Some(interval));
    }
}

impl Core {
    /// When the peer of a connection is asked for its window that has something to send, but nothing that lets it go on: smoltcp
    /// has no probe of a window that was closed while nothing was acknowledged.
    pub(crate) fn inquire(&mut self, slot: u32) -> Option<u64> {
        let connection = self.connection(slot)?;
        if connection.is_over || connection.channel.socket().send_queue() == 0 {
            return None;
        }
        connection.question(INQUIRY);
        Some(self.now.saturating_add(INQUIRING))
    }

    /// Does what is due to a connection because time has passed.
    pub(crate) fn lose_patience(&mut self, slot: u32, host: &mut dyn Host) {
        let now = self.now;
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        let Some((_, step)) = entry.step().filter(|&(deadline, _)| deadline <= now) else { return };
        match step {
            Step::Fail => self.fail(slot, Errno::ETIMEDOUT, host),
            Step::Forget => self.discard(slot),
            Step::Abort => self.reset(slot, Some(Errno::ETIMEDOUT), host),
            Step::Probe => {
                let interval = Duration::from_secs(entry.settings.keep_alive_interval.into());
                if let Some(connection) = entry.connection_mut() {
                    connection.question(interval);
                }
            }
        }
    }

    /// A connection did not come to be.
    pub(crate) fn fail(&mut self, slot: u32, error: Errno, host: &mut dyn Host) {
        if let Some(connection) = self.connection(slot) {
            connection.silence();
        }
        self.end(slot, Some(error), host);
    }
}
