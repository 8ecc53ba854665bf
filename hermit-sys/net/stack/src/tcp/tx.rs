//! Segments that leave: what a connection has to send, and when it is to be looked after again.

use hermit_interface::Errno;
use hermit_tcp::{Flags, State, Transmit};
use smoltcp::wire::{EthernetAddress, IpProtocol};

use crate::core::{Core, Entry};
use crate::hardware::{Checksum, IpVersion, Offload, Segment};
use crate::host::Host;
use crate::link::Link;
use crate::network::Route;
use crate::network::neighbors::Answer;
use crate::options::Settings;
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::path::{Limits, Path};
use crate::wire::emit::{self, ETHERNET, EthernetHeader, IpHeader};
use crate::wire::tcp::{CHECKSUM_OFFSET, ChecksumBy, ECN_CAPABLE, ECN_MASK, OutgoingSegment, TCP};

/// Maximum number of segments of a connection before it is the turn of the others.
const BURST: usize = 32;

/// Number of bytes from which on nothing is gained by waiting for more to go with them.
const CORK: usize = 32 << 10;

/// Minimum time in nanoseconds until a connection is looked after again whose deadline has passed: it lacks memory.
const SOON: u64 = 50_000;

/// Time in nanoseconds after which a connection is tried again that could not send, if nothing else tells.
const RETRY: u64 = 1_000_000_000;

/// The identification of the next packet that may be fragmented: the lower half of a counter.
fn next(counter: &mut u32) -> u16 {
    *counter = counter.wrapping_add(1);
    let [_, _, high, low] = counter.to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// How sending went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything that may be sent now has been; there may be more at a deadline.
    Done(Option<u64>),
    /// There is more; others are first.
    More,
    /// The link has no room.
    Full,
    /// The neighbor is not known, or there is no route.
    Waiting,
}

/// The way of a connection's packets.
enum Way {
    /// This host itself.
    Local,
    /// Behind this header.
    Wire(EthernetHeader),
    /// It is not known, yet.
    Unknown,
}

/// Where and how a connection sends.
struct Sender<'a> {
    link: &'a mut dyn Link,
    ethernet: Option<EthernetHeader>,
    limits: Limits,
    settings: Settings,
}

impl Sender<'_> {
    /// Sends one segment, if there is one. `Some` if there are no more, or there is no room.
    fn send_next(
        &mut self,
        connection: &mut Connection,
        identification: &mut u32,
        now: u64,
    ) -> Option<Outcome> {
        if !connection.tcp.may_send(now) {
            return Some(Outcome::Done(connection.tcp.deadline()));
        }
        let remote = connection.tuple.remote.address;
        // The option of timestamps is in each segment with data.
        let most = u32::from(self.limits.segmented_size(&remote)).saturating_sub(12);
        let Some(mut transmit) = connection.tcp.next_segment(most, now) else {
            return Some(Outcome::Done(connection.tcp.deadline()));
        };
        // Each of the segments that a device makes would say that the window was reduced.
        if transmit.header.flags.contains(Flags::CWR) && transmit.size() > transmit.mss {
            transmit = connection.tcp.next_segment(0, now)?;
        }
        let ip = self.ip_header(connection, &transmit);
        let frame = self.ethernet.map_or(0, |_| ETHERNET) + ip.size() + ip.size;
        if !self.link.can_transmit(frame) {
            return Some(Outcome::Full);
        }
        let segment = OutgoingSegment {
            ethernet: self.ethernet,
            ip,
            ports: (connection.tuple.local.port, connection.tuple.remote.port),
            header: &transmit.header,
            checksum: self.limits.checksum,
            identification: connection.may_be_fragmented.then(|| next(identification)),
        };
        let tcp = &connection.tcp;
        let offload = self.offload(&ip, &transmit);
        self.link.transmit(frame, offload, &mut |bytes| segment.write(bytes, tcp.payload(&transmit)));
        connection.tcp.sent(&transmit, now);
        connection.held = 0;
        None
    }

    fn ip_header(&self, connection: &Connection, transmit: &Transmit) -> IpHeader {
        let (source, destination) = (connection.tuple.local.address, connection.tuple.remote.address);
        let ecn = if transmit.is_ecn_capable { ECN_CAPABLE } else { 0 };
        let data = usize::try_from(transmit.size()).unwrap_or(usize::MAX);
        IpHeader {
            source,
            destination,
            protocol: IpProtocol::Tcp,
            size: TCP + transmit.header.options.size() + data,
            hop_limit: self.settings.hops(destination.is_ipv4()),
            class: self.settings.class & !ECN_MASK | ecn,
        }
    }

    /// What the device is to do.
    fn offload(&self, ip: &IpHeader, transmit: &Transmit) -> Offload {
        if self.limits.checksum != ChecksumBy::Device {
            return Offload::default();
        }
        let to_u16 = |size: usize| u16::try_from(size).unwrap_or(u16::MAX);
        let start = ETHERNET + ip.size();
        let version = if ip.source.is_ipv4() { IpVersion::V4 } else { IpVersion::V6 };
        let segment = Segment {
            version,
            header_size: to_u16(start + TCP + transmit.header.options.size()),
            size: u16::try_from(transmit.mss).unwrap_or(u16::MAX),
        };
        Offload {
            checksum: Some(Checksum { start: to_u16(start), offset: CHECKSUM_OFFSET }),
            segment: (transmit.size() > transmit.mss).then_some(segment),
        }
    }
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
        let is_local =
            || self.sockets.get(slot).and_then(Entry::connection).map(|connection| connection.path);
        match outcome {
            // The queue of local packets is emptied before it is this one's turn again.
            Outcome::Full if is_local() == Some(Path::Local) => self.mark(slot),
            Outcome::Full => return true,
            Outcome::More => self.mark(slot),
            Outcome::Done(deadline) => {
                self.conclude(slot, host);
                self.schedule(slot, deadline);
            }
            Outcome::Waiting => {
                let now = self.now;
                if let Some(connection) = self.connection(slot) {
                    connection.tcp.on_unreachable(now);
                }
                self.drop_unsent(slot);
                self.schedule(slot, Some(self.now.saturating_add(RETRY)));
            }
        }
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
        let Self { sockets, local, now, identification, port, .. } = self;
        let Some(entry) = sockets.get_mut(slot) else { return Outcome::Done(None) };
        let settings = entry.settings;
        let Some(connection) = entry.connection_mut() else { return Outcome::Done(None) };
        if connection.is_over && !connection.tcp.has_reset_to_send() {
            return Outcome::Done(None);
        }
        let limits = connection.path.limits(port.as_ref());
        let link = if ethernet.is_none() { local } else { link };
        let mut sender = Sender { link, ethernet, limits, settings };
        for _ in 0..BURST {
            if let Some(outcome) = sender.send_next(connection, identification, *now) {
                return outcome;
            }
        }
        Outcome::More
    }

    /// Looks whether a connection that has sent everything is over.
    fn conclude(&mut self, slot: u32, host: &mut dyn Host) {
        let now = self.now;
        let Some(entry) = self.sockets.get(slot) else { return };
        let (reuse, is_orphan) = (entry.settings.reuse, entry.is_orphan());
        let Some(connection) = entry.connection() else { return };
        match connection.state() {
            _ if connection.is_over && is_orphan => self.discard(slot),
            _ if connection.is_over => (),
            State::TimeWait => {
                let (tuple, last) = (connection.tuple, connection.tcp.acknowledgement(now));
                if self.tcp.time_wait.insert(tuple, &last, reuse, now) {
                    // The port stays counted until the record goes. It is counted already: no memory is needed.
                    let _ = self.tcp.ports.connected(tuple.local.port, reuse);
                }
                self.end(slot, None, host);
            }
            State::Closed => self.end(slot, None, host),
            _ => (),
        }
    }

    /// Discards a connection that is over and has no owner: it does not wait for the way to its peer.
    fn drop_unsent(&mut self, slot: u32) {
        let entry = self.sockets.get(slot).filter(|entry| entry.is_orphan());
        if entry.and_then(Entry::connection).is_some_and(|connection| connection.is_over) {
            self.discard(slot);
        }
    }

    /// Has a connection send what was written, if it may; while the device is still at what is before that, it waits
    /// for more to go with it: fewer, larger frames are the quicker ones.
    pub(crate) fn offer(&mut self, slot: u32, link: &mut dyn Link) {
        let Some(connection) = self.connection(slot) else { return };
        let may_wait = connection.held < CORK;
        if connection.is_corked && may_wait || connection.tcp.is_held_back() {
            return;
        }
        let is_remote = connection.path != Path::Local;
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

    /// Sets when a connection is to be looked after at the latest.
    pub(crate) fn schedule(&mut self, slot: u32, deadline: Option<u64>) {
        let earliest = self.now.saturating_add(SOON);
        let connection = self.sockets.get(slot).and_then(Entry::connection);
        if connection.is_some_and(|connection| !connection.is_over) {
            self.timers.advance(slot, deadline.map(|deadline| deadline.max(earliest)));
        }
    }

    /// Does what is due to a connection because time has passed.
    pub(crate) fn on_timer(&mut self, slot: u32, host: &mut dyn Host) {
        let Self { sockets, budget, now, .. } = self;
        let Some(connection) = sockets.get_mut(slot).and_then(Entry::connection_mut) else { return };
        let events = connection.tcp.on_timer(budget.pool(), *now);
        if !events.contains(hermit_tcp::Events::CLOSED) {
            return self.mark(slot);
        }
        let error = connection.tcp.failure().map(|_| Errno::ETIMEDOUT);
        match connection.phase {
            Phase::HalfOpen { .. } => self.discard(slot),
            _ if connection.tcp.has_reset_to_send() => self.finish(slot, error, host),
            _ => self.end(slot, error, host),
        }
    }
}
