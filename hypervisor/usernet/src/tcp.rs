//! TCP flows. The guest's TCP connections end in this process. A flow joins such a connection with a socket
//! of the host.
//!
//! A flow begins in one of two ways. If the guest sends a SYN, a socket connects to the peer. If a listener
//! accepts a client, the flow sends a SYN to the guest ([`flow`]). After that, segments of the guest are
//! handled at once. Segments for the guest are made only when its driver has room for a frame: flows that may
//! have a segment wait in a queue, and the first flow of the queue is asked for one. So no frames pile up in
//! this process if the guest takes them slowly, and no flow starves another one.
//!
//! | module | |
//! | --- | --- |
//! | `clients` | clients of listeners |
//! | `flow` | state of a flow |
//! | `segments` | segments from the guest |
//! | `output` | segments for the guest |
//! | `timers` | delayed acknowledgements, retransmissions, window probes |

mod clients;
pub(crate) mod flow;
pub(crate) mod output;
pub(crate) mod segments;
mod timers;

use std::collections::hash_map::RandomState;
use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasher;
use std::io::{self, ErrorKind};

use hermit_tcp::{Flags, Seq};

use self::flow::{AckDue, Flow, Phase};
use self::output::{Next, Output, Place};
use self::segments::Fate;
use self::timers::Timers;
use crate::config::Config;
use crate::emit::TcpHeader;
use crate::host::{Host, Protocol, Token, is_exhausted};
use crate::icmp::Unreachable;
use crate::parse::{Ends, Segment};
use crate::slab::{Slab, remove_stale};
use crate::{Guest, Readiness, Usage};

/// Maximum number of flows.
const MAX_FLOWS: usize = 32_768;

/// Maximum number of flows that the guest has opened and that are not established.
const MAX_CONNECTING: usize = 1_024;

/// Maximum number of bytes that all flows together keep because their sockets do not take them yet.
const MAX_KEPT: usize = 64 << 20;

/// Answer to a segment that belongs to no flow.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// No answer.
    Silence,
    /// A segment without data.
    Segment(Vec<u8>),
    /// No descriptor was free. The caller may free a descriptor and try again. Otherwise it sends this
    /// segment, which has no data.
    Exhausted(Vec<u8>),
    /// An ICMP error about the segment.
    Unreachable(Unreachable),
}

impl Answer {
    /// Returns the frame if the answer is a segment.
    pub(crate) fn into_frame(self) -> Option<Vec<u8>> {
        match self {
            Self::Segment(frame) | Self::Exhausted(frame) => Some(frame),
            Self::Silence | Self::Unreachable(_) => None,
        }
    }
}

/// All TCP flows of a network.
#[derive(Debug)]
pub(crate) struct Tcp<S> {
    flows: Slab<Flow<S>>,
    by_ends: HashMap<Ends, Token>,
    /// Flows that may have a segment for the guest.
    ready: VecDeque<Token>,
    timers: Timers,
    /// Number of flows that are not established: flows that the guest has opened, and clients' flows for each
    /// listener.
    connecting: usize,
    clients: Vec<usize>,
    /// Number of kept bytes of all flows.
    kept: usize,
    /// Secret key for initial sequence numbers (RFC 6528).
    secret: RandomState,
    /// For each listener, true if it may have clients to accept; and the numbers of these listeners.
    has_clients: Vec<bool>,
    with_clients: Vec<usize>,
}

impl<S> Tcp<S> {
    pub(crate) fn new(listeners: usize) -> Self {
        Self {
            flows: Slab::new(MAX_FLOWS),
            by_ends: HashMap::new(),
            ready: VecDeque::new(),
            timers: Timers::default(),
            connecting: 0,
            clients: vec![0; listeners],
            kept: 0,
            secret: RandomState::new(),
            has_clients: vec![false; listeners],
            with_clients: Vec::new(),
        }
    }

    /// Returns the number of flows.
    pub(crate) const fn len(&self) -> usize {
        self.flows.len()
    }

    /// Adds the resources of the flows to `usage`.
    pub(crate) fn count(&self, usage: &mut Usage) {
        usage.tcp_flows = self.len();
        usage.half_open = self.connecting + self.clients.iter().sum::<usize>();
        usage.queued += self.ready.len() + self.timers.len();
        usage.kept = self.kept;
    }

    /// Returns true if a flow may have a segment for the guest.
    pub(crate) fn has_output(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns true if a flow keeps bytes that its socket has not taken.
    pub(crate) const fn has_unsent(&self) -> bool {
        self.kept > 0
    }

    /// Returns an initial sequence number (RFC 6528): larger than those of previous connections with the same
    /// ends.
    fn iss(&self, ends: &Ends, now: u64) -> Seq {
        let [a, b, c, d, ..] = self.secret.hash_one(ends).to_le_bytes();
        let [e, f, g, h, ..] = (now / 4_000).to_le_bytes();
        Seq(u32::from_le_bytes([a, b, c, d]).wrapping_add(u32::from_le_bytes([e, f, g, h])))
    }

    /// Handles a segment from the guest.
    pub(crate) fn transmit<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        (config, guest): (&Config, &Guest),
        segment: &Segment,
        frame: &H::Frame<'_>,
    ) -> Answer {
        let Some(&token) = self.by_ends.get(&segment.ends) else { return self.open(host, config, segment) };
        let room = MAX_KEPT.saturating_sub(self.kept);
        let fate = self.update(token, |flow| flow.receive(host, segment, frame, room));
        if fate == Fate::Lives {
            self.enqueue_if_useful(token, host.now());
            return Answer::Silence;
        }
        if fate == Fate::Refuses {
            return Answer::Segment(reset_of_segment(config, segment));
        }
        self.end(host, (config, guest), token, fate)
    }

    /// Calls `action` for a flow, and then updates the counters of [`Tcp`] for the flow's new state.
    fn update(&mut self, token: Token, action: impl FnOnce(&mut Flow<S>) -> Fate) -> Fate {
        let Some(flow) = self.flows.get_mut(token) else { return Fate::Lives };
        let (kept, was_half_open) = (flow.incoming.pending.capacity(), flow.is_half_open());
        let fate = action(flow);
        let is_established = was_half_open && !flow.is_half_open();
        let (listener, now_kept) = (flow.listener, flow.incoming.pending.capacity());
        self.kept = self.kept + now_kept - kept;
        if is_established {
            self.count_established(listener);
        }
        fate
    }

    /// Updates the counters for a flow that is no longer half-open. `listener` is [`Flow::listener`].
    fn count_established(&mut self, listener: Option<usize>) {
        let count = match listener {
            Some(listener) => self.clients.get_mut(listener),
            None => Some(&mut self.connecting),
        };
        if let Some(count) = count {
            *count = count.saturating_sub(1);
        }
    }

    /// Puts a flow into the queue if it may have a segment for the guest.
    fn enqueue_if_useful(&mut self, token: Token, now: u64) {
        let Some(flow) = self.flows.get_mut(token) else { return };
        let outgoing = &flow.outgoing;
        let is_useful = outgoing.is_readable
            || outgoing.is_due
            || outgoing.fin == Some(outgoing.nxt)
            || flow.incoming.ack == AckDue::Now;
        if is_useful {
            self.enqueue(token);
        } else {
            self.delay_ack_if_due(token, now);
        }
    }

    /// Adds a flow to the list of delayed acknowledgements, if its acknowledgement is delayed.
    fn delay_ack_if_due(&mut self, token: Token, now: u64) {
        let Some(flow) = self.flows.get_mut(token) else { return };
        if flow.incoming.ack == AckDue::Delayed && !flow.incoming.is_listed {
            flow.incoming.is_listed = true;
            self.timers.delay_ack(token, now);
        }
    }

    fn enqueue(&mut self, token: Token) {
        let Some(flow) = self.flows.get_mut(token).filter(|flow| !flow.is_queued) else { return };
        flow.is_queued = true;
        self.ready.push_back(token);
    }

    /// Handles a segment that belongs to no flow: a SYN opens one.
    fn open<H: Host<Stream = S>>(&mut self, host: &mut H, config: &Config, segment: &Segment) -> Answer {
        if segment.flags.contains(Flags::RST) {
            return Answer::Silence;
        }
        if segment.flags & (Flags::SYN | Flags::ACK) != Flags::SYN {
            return Answer::Segment(reset_of_segment(config, segment));
        }
        let Some(to) = config.outside(segment.ends.peer) else {
            return Answer::Segment(reset_of_segment(config, segment));
        };
        if !host.is_permitted(Protocol::Tcp, to) {
            return Answer::Unreachable(Unreachable::Prohibited);
        }
        let token = self.flows.next().filter(|_| self.connecting < MAX_CONNECTING);
        // No answer: the guest retransmits its SYN, and there may be room by then.
        let Some(token) = token else { return Answer::Silence };
        match host.connect(to, token) {
            Ok(stream) => {
                let iss = self.iss(&segment.ends, host.now());
                self.flows.insert(Flow::from_guest(stream, segment, iss));
                self.by_ends.insert(segment.ends, token);
                self.connecting += 1;
                Answer::Silence
            }
            Err(error) if is_exhausted(&error) => Answer::Exhausted(reset_of_segment(config, segment)),
            Err(error) => refusal(&error, || reset_of_segment(config, segment)),
        }
    }

    /// Handles an event of a flow's socket.
    pub(crate) fn handle_event<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        (config, guest): (&Config, &Guest),
        token: Token,
        readiness: Readiness,
    ) -> (Answer, Option<(Ends, Seq)>) {
        let Some(flow) = self.flows.get_mut(token) else { return (Answer::Silence, None) };
        let ends = Some((flow.ends, flow.incoming.nxt - 1));
        if flow.phase == Phase::Connecting {
            return (self.handle_connected(host, config, token, readiness), ends);
        }
        let has_hung_up = readiness.intersects(Readiness::HANG_UP | Readiness::FAILED);
        flow.outgoing.is_readable |= has_hung_up || readiness.contains(Readiness::READABLE);
        flow.outgoing.has_hung_up |= has_hung_up;
        let mut fate = Fate::Lives;
        // The socket is not read after the end of the stream, or while the guest's window is closed. Then no
        // read would report the error, so it is handled here.
        let is_reading = flow.outgoing.fin.is_none() && flow.outgoing.window() > 0;
        if !is_reading && readiness.contains(Readiness::FAILED) {
            fate = host.take_error(&flow.stream).map_or(Fate::Lives, |_| Fate::ResetGuest);
        }
        if fate == Fate::Lives && readiness.contains(Readiness::WRITABLE) {
            flow.incoming.is_writable = true;
            fate = self.update(token, |flow| match flow.flush(host) {
                Ok(()) if flow.is_over() => Fate::Ends,
                Ok(()) => Fate::Lives,
                Err(_) => Fate::ResetGuest,
            });
        }
        if fate == Fate::Lives {
            self.enqueue_if_useful(token, host.now());
            return (Answer::Silence, ends);
        }
        (self.end(host, (config, guest), token, fate), ends)
    }

    /// Handles an event of a connecting socket: the connection is established, or has failed.
    fn handle_connected<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        config: &Config,
        token: Token,
        readiness: Readiness,
    ) -> Answer {
        let Some(flow) = self.flows.get_mut(token) else { return Answer::Silence };
        if !readiness.intersects(Readiness::WRITABLE | Readiness::HANG_UP | Readiness::FAILED) {
            return Answer::Silence;
        }
        if let Some(error) = host.take_error(&flow.stream) {
            let answer = refusal(&error, || reset_of_flow(config, flow));
            drop(self.remove(token));
            return answer;
        }
        flow.phase = Phase::SynReceived;
        // The peer may have ended the stream already. It must be recorded here, because the socket does not
        // report it again.
        flow.outgoing.has_hung_up |= readiness.contains(Readiness::HANG_UP);
        flow.outgoing.is_due = true;
        self.enqueue(token);
        Answer::Silence
    }

    /// Ends a flow.
    fn end<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        (config, guest): (&Config, &Guest),
        token: Token,
        fate: Fate,
    ) -> Answer {
        // A client whose connection the guest has refused over IPv6 gets a second attempt over IPv4.
        if fate == Fate::ResetPeer && self.try_ipv4(config, guest, token) {
            return Answer::Silence;
        }
        let Some(mut flow) = self.remove(token) else { return Answer::Silence };
        match fate {
            Fate::Lives | Fate::Refuses => Answer::Silence,
            Fate::Ends => {
                // Linux resets the connection if a socket with unread bytes is closed, so acknowledged bytes
                // are discarded first.
                flow.discard(host);
                if flow.incoming.ack == AckDue::No {
                    Answer::Silence
                } else {
                    Answer::Segment(last_ack(config, &flow))
                }
            }
            Fate::ResetPeer => {
                host.reset(flow.stream);
                Answer::Silence
            }
            Fate::ResetGuest => Answer::Segment(reset_of_flow(config, &flow)),
        }
    }

    /// Removes a flow from all tables.
    fn remove(&mut self, token: Token) -> Option<Flow<S>> {
        let flow = self.flows.remove(token)?;
        self.by_ends.remove(&flow.ends);
        for queue in [&mut self.ready, &mut self.timers.delayed] {
            remove_stale(queue, self.flows.len(), |&token| self.flows.get(token).is_some());
        }
        self.kept -= flow.incoming.pending.capacity();
        if flow.is_half_open() {
            self.count_established(flow.listener);
        }
        Some(flow)
    }

    /// Writes the next segment of any flow for the guest. If a flow ends instead, returns its last segment as
    /// a separate frame.
    pub(crate) fn next_segment<H: Host<Stream = S>>(
        &mut self,
        host: &mut H,
        (config, guest): (&Config, &Guest),
        place: &mut Place<'_, '_, H>,
    ) -> Result<Option<Output>, Answer> {
        while let Some(token) = self.ready.pop_front() {
            let Some(flow) = self.flows.get_mut(token) else { continue };
            flow.is_queued = false;
            let next = flow.next_segment(host, config, place);
            self.timers.watch(flow.outgoing.retransmit_at, host.now());
            match next {
                Next::Segment(output) => {
                    self.enqueue_if_useful(token, host.now());
                    return Ok(Some(output));
                }
                Next::Nothing => self.delay_ack_if_due(token, host.now()),
                Next::Failed => return Err(self.end(host, (config, guest), token, Fate::ResetGuest)),
            }
        }
        Ok(None)
    }
}

/// Returns the answer to a SYN of the guest if the connection to the peer has failed.
fn refusal(error: &io::Error, reset: impl FnOnce() -> Vec<u8>) -> Answer {
    match error.kind() {
        ErrorKind::NetworkUnreachable => Answer::Unreachable(Unreachable::Network),
        ErrorKind::HostUnreachable | ErrorKind::AddrNotAvailable => Answer::Unreachable(Unreachable::Host),
        ErrorKind::PermissionDenied => Answer::Unreachable(Unreachable::Prohibited),
        // The guest's own timeout ends its attempt.
        ErrorKind::TimedOut => Answer::Silence,
        _ => Answer::Segment(reset()),
    }
}

/// Returns the reset that answers a segment without a connection (RFC 9293 §3.10.7.1).
fn reset_of_segment(config: &Config, segment: &Segment) -> Vec<u8> {
    let has_ack = segment.flags.contains(Flags::ACK);
    let control = segment.flags.intersection(Flags::SYN | Flags::FIN).bits().count_ones();
    let length = u32::try_from(segment.data.len()).unwrap_or(u32::MAX).wrapping_add(control);
    reset(
        config,
        segment.ends,
        if has_ack { segment.ack } else { Seq(0) },
        (!has_ack).then(|| segment.seq + length),
    )
}

/// Returns the acknowledgement of the guest's FIN for a flow that ends with this FIN.
fn last_ack<S>(config: &Config, flow: &Flow<S>) -> Vec<u8> {
    let Flow { ends, outgoing, incoming, .. } = flow;
    let (ack, window) = (Some(incoming.nxt), incoming.window());
    without_data(
        config,
        &TcpHeader { ends: *ends, seq: outgoing.nxt, ack, flags: Flags::empty(), window, syn_options: None },
    )
}

/// Returns the reset that ends the guest's connection of a flow.
fn reset_of_flow<S>(config: &Config, flow: &Flow<S>) -> Vec<u8> {
    let is_refused = flow.phase == Phase::Connecting;
    // The guest may already have data that is being retransmitted, so the reset's sequence number follows all
    // sent data.
    let seq = if is_refused { Seq(0) } else { flow.outgoing.max };
    reset(config, flow.ends, seq, Some(flow.incoming.nxt))
}

fn reset(config: &Config, ends: Ends, seq: Seq, ack: Option<Seq>) -> Vec<u8> {
    without_data(config, &TcpHeader { ends, seq, ack, flags: Flags::RST, window: 0, syn_options: None })
}

/// Returns the frame of a segment without data. The checksum is complete.
fn without_data(config: &Config, header: &TcpHeader) -> Vec<u8> {
    let mut frame = Vec::new();
    header.write(config.guest_mac, 0, &mut frame).complete(&mut frame);
    frame
}
