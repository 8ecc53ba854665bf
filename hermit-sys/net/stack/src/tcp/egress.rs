//! Segments that leave: what a connection has to send, and when it is to be looked after again.

use hermit_interface::Errno;
use smoltcp::socket::tcp::State;
use smoltcp::wire::EthernetAddress;

use crate::address::Tuple;
use crate::core::{Core, Entry, instant};
use crate::hardware::Offload;
use crate::host::Host;
use crate::link::Link;
use crate::network::Route;
use crate::network::neighbors::Answer;
use crate::tcp::connection::Phase;
use crate::tcp::side::Path;
use crate::wire::device::{Egress, Sent, Touch};
use crate::wire::emit::{self, Acknowledgement, EthernetHeader};

/// Most segments of a connection before it is the turn of the others.
const BURST: usize = 32;

/// From how many bytes on nothing is gained by waiting for more to go with them.
const CORK: usize = 32 << 10;

/// Headers with all options.
const HEADERS: usize = 60 + 60;

/// When something that should be sent, but is not, is tried again.
const SOON: u64 = 1_000_000;

/// When something that could not be sent is tried again, if nothing else tells.
const RETRY: u64 = 1_000_000_000;

/// The number of the next packet that may be cut: the lower half of a counter.
fn next(counter: &mut u32) -> u16 {
    *counter = counter.wrapping_add(1);
    let [_, _, high, low] = counter.to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// How sending went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything that may be sent now has been; there may be more at a moment.
    Done(Option<u64>),
    /// There is more; others are first.
    More,
    /// The link has no room.
    Full,
    /// The neighbor is not known, or there is no way.
    Waiting,
}

impl Outcome {
    /// How it went with a full link, for a connection that has something to send at `next`.
    fn without_room(next: Option<u64>, now: u64) -> Self {
        if next.is_some_and(|next| next <= now) { Self::Full } else { Self::Done(next) }
    }
}

/// The way a connection's packets go.
enum Way {
    /// This host itself.
    Local,
    /// Behind this header.
    Wire(EthernetHeader),
    /// It is not known, yet.
    Unknown,
}

impl Core {
    /// Sends what a connection has to send. Returns whether it has to be tried again when the device has room.
    pub(crate) fn transmit(&mut self, slot: u32, link: &mut dyn Link, host: &mut dyn Host) -> bool {
        self.visit();
        let outcome = match self.way(slot, link, host) {
            Way::Local => self.send_burst(slot, None, link),
            Way::Wire(header) => self.send_burst(slot, Some(header), link),
            Way::Unknown => Outcome::Waiting,
        };
        let next = match outcome {
            // The queue of local packets is emptied before it is this one's turn again.
            Outcome::Full
                if self.connection(slot).is_some_and(|connection| connection.path == Path::Local) =>
            {
                self.mark(slot);
                None
            }
            Outcome::Full => return true,
            Outcome::More => {
                self.mark(slot);
                None
            }
            Outcome::Done(next) => {
                self.conclude(slot, host);
                next.or_else(|| self.inquire(slot))
            }
            Outcome::Waiting => {
                self.drop_unsent(slot);
                Some(self.now.saturating_add(RETRY))
            }
        };
        self.schedule(slot, next);
        false
    }

    /// Finds the way to a connection's peer.
    fn way(&mut self, slot: u32, link: &mut dyn Link, host: &mut dyn Host) -> Way {
        let now = self.now;
        let Some(connection) = self.connection(slot) else { return Way::Unknown };
        if connection.path == Path::Local {
            return Way::Local;
        }
        let (remote, phase) = (connection.tuple.remote.address, connection.phase);
        let (Some(Route::Neighbor(hop)), Some(port)) = (self.network.route(remote), self.port) else {
            if phase == Phase::Connecting {
                self.fail(slot, Errno::ENETUNREACH, host);
            }
            return Way::Unknown;
        };
        let destination = match self.neighbors.lookup(hop, now) {
            Answer::Known(mac) => mac,
            Answer::Ask(mac) => {
                self.ask(hop, Some(mac), link);
                mac
            }
            Answer::Unknown => {
                if self.neighbors.await_connection(hop, slot, now) {
                    self.ask(hop, None, link);
                }
                return Way::Unknown;
            }
        };
        let protocol = EthernetHeader::protocol(&remote);
        Way::Wire(EthernetHeader { source: port.mac, destination, protocol })
    }

    /// Asks who has an address.
    pub(crate) fn ask(
        &mut self,
        target: core::net::IpAddr,
        known: Option<EthernetAddress>,
        link: &mut dyn Link,
    ) {
        let (Some(source), Some(port)) = (self.network.source(target), self.port) else { return };
        let size = emit::solicitation_size(&target);
        if link.can_transmit(size) {
            let mut fill = |bytes: &mut [u8]| emit::solicitation(bytes, port.mac, source, target, known);
            link.transmit(size, Offload::default(), &mut fill);
        }
    }

    fn send_burst(&mut self, slot: u32, ethernet: Option<EthernetHeader>, link: &mut dyn Link) -> Outcome {
        let Self { sockets, tcp, local, now, identification, .. } = self;
        let Some(entry) = sockets.get_mut(slot) else { return Outcome::Done(None) };
        let settings = entry.settings;
        let Some(connection) = entry.connection_mut() else { return Outcome::Done(None) };
        if connection.is_over && !connection.has_reset_to_send() {
            return Outcome::Done(None);
        }
        let Some(side) = tcp.side(connection.path) else { return Outcome::Done(None) };
        let touch = Touch {
            class: settings.class,
            identification: None,
            announced: side.announced(&connection.tuple.remote.address),
            uncut: side.mtu,
            segment: connection.segment,
        };
        let link = if ethernet.is_none() { local } else { link };
        connection.prepare(&settings);
        for _ in 0..BURST {
            let queued = connection.channel.socket().send_queue();
            let mut device = Egress {
                link: &mut *link,
                ethernet,
                capabilities: &side.capabilities,
                fills_checksums: side.fills_checksums,
                touch: Touch { identification: connection.may_be_cut.then(|| next(identification)), ..touch },
                room: side.most.min(queued + HEADERS),
                sent: None,
            };
            // smoltcp forgets that something is to be repeated at once, even if the device does not take it.
            if !device.has_room() {
                let next = connection.due(side, &settings, *now);
                return Outcome::without_room(next, *now);
            }
            side.interface.poll_egress(instant(*now), &mut device, connection.channel.set());
            let sent = device.sent;
            if let Some(sent) = sent {
                connection.note_sent(sent);
            }
            let next = connection.due(side, &settings, *now);
            if sent.is_none() || next.is_none_or(|next| next > *now) {
                return Outcome::Done(next);
            }
        }
        Outcome::More
    }

    /// Looks whether a connection that has sent everything is over.
    fn conclude(&mut self, slot: u32, host: &mut dyn Host) {
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        let (reuse, is_orphan) = (entry.settings.reuse, entry.is_orphan());
        let Some(connection) = entry.connection_mut() else { return };
        match connection.state() {
            _ if connection.is_over && is_orphan && !connection.has_reset_to_send() => self.discard(slot),
            _ if connection.is_over => (),
            State::TimeWait if connection.has_acknowledged_end() => {
                let (tuple, last) = (connection.tuple, connection.last_sent);
                self.remember(tuple, last, reuse);
                self.end(slot, None, host);
            }
            State::Closed if !connection.has_reset_to_send() => self.end(slot, None, host),
            _ => (),
        }
    }

    /// Remembers a connection, with the last segment that was sent.
    fn remember(&mut self, tuple: Tuple, last: Option<Sent>, reuse: bool) {
        let Some(Sent { end, acknowledged, window, .. }) = last else { return };
        let answer = Acknowledgement { sequence: end, acknowledged, window };
        if self.tcp.time_wait.insert(tuple, answer, reuse, self.now) {
            // The port stays counted until the record goes. It is counted already: no memory is needed.
            let _ = self.tcp.ports.connected(tuple.local.port, reuse);
        }
    }

    /// Discards a connection that is over and nobody's: it does not wait for the way to its peer.
    fn drop_unsent(&mut self, slot: u32) {
        let entry = self.sockets.get(slot).filter(|entry| entry.is_orphan());
        if entry.and_then(Entry::connection).is_some_and(|connection| connection.is_over) {
            self.discard(slot);
        }
    }

    /// Looks whether a connection has something to send now, or when.
    pub(crate) fn consider(&mut self, slot: u32) {
        if self.is_due(slot) {
            self.mark(slot);
        }
    }

    /// Has a connection send what it got from its owner, if it may; while the device is still at what is before that, it waits
    /// for more to go with it: fewer, larger frames are the quicker ones.
    pub(crate) fn offer(&mut self, slot: u32, link: &mut dyn Link) {
        let Some(entry) = self.sockets.get(slot) else { return };
        let Some(connection) = entry.connection() else { return };
        // Asking smoltcp takes 300 instructions, which two cases need not.
        if connection.must_wait(&entry.settings) {
            return;
        }
        let (is_corked, may_wait) = (connection.is_corked, connection.held < CORK);
        let is_remote = connection.path != Path::Local;
        // With nothing before them, new bytes are due unless the peer takes none, which smoltcp finds when it is to send.
        let is_first = connection.channel.socket().send_queue() == connection.held;
        if is_corked && may_wait || !is_first && !self.is_due(slot) {
            return;
        }
        if is_remote && may_wait && link.is_sending() && self.corked.try_reserve(1).is_ok() {
            self.corked.push(slot);
            if let Some(connection) = self.connection(slot) {
                connection.is_corked = true;
            }
        } else {
            self.mark(slot);
        }
    }

    /// Has those send who waited for the device.
    pub(crate) fn uncork(&mut self) {
        while let Some(slot) = self.corked.pop() {
            if let Some(connection) = self.connection(slot) {
                connection.is_corked = false;
                self.mark(slot);
            }
        }
    }

    /// Whether a connection has something to send now; if not, it is looked after when it has.
    fn is_due(&mut self, slot: u32) -> bool {
        let now = self.now;
        let Self { sockets, tcp, .. } = self;
        let Some(entry) = sockets.get_mut(slot) else { return false };
        let settings = entry.settings;
        let Some(connection) = entry.connection_mut() else { return false };
        let next = tcp.side(connection.path).and_then(|side| connection.due(side, &settings, now));
        if next.is_some_and(|next| next <= now) {
            return true;
        }
        let next = next.or_else(|| self.inquire(slot));
        let known = self.timers.moment(slot);
        if known.is_none_or(|known| next.is_some_and(|next| next < known)) {
            self.schedule(slot, next);
        }
        false
    }

    /// Sets when a connection is to be looked after: at a given moment, or when patience ends.
    fn schedule(&mut self, slot: u32, next: Option<u64>) {
        let now = self.now;
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        entry.note_waiting(now);
        let patience = entry.patience_ends();
        if entry.connection().is_some_and(|connection| !connection.is_over) {
            // smoltcp says "now" of some things that it does not do yet.
            let next = next.map(|next| next.max(now.saturating_add(SOON)));
            self.timers.advance(slot, [next, patience].into_iter().flatten().min());
        }
    }
}
