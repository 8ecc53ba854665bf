//! TX of segments, and timers of connections.
//!
//! A connection is transmitted when the poll serves it. First the next hop is resolved: the loopback, or a
//! neighbor with a known MAC address. Then up to [`BURST`] segments are written to the device or the loopback
//! queue, before other connections are served. With segmentation offload (TSO), a segment is larger than the
//! MSS, and the device cuts it. The outcome decides how the connection continues: it waits for its timer, is
//! queued again, waits for room in the transmit queue, or waits for the neighbor.

use hermit_interface::Errno;
use hermit_tcp::{Flags, Pool, State, Transmit};
use smoltcp::wire::IpProtocol;

use crate::ip::routes::Route;
use crate::phy::device::{Checksum, IpVersion, Offload, Segment};
use crate::phy::tx_queue::Link;
use crate::socket::context::Context;
use crate::socket::options::SocketSettings;
use crate::socket::table::Socket;
use crate::tcp::connection::{Connection, Phase};
use crate::tcp::path::{Limits, Path};
use crate::tcp::shard::Shard;
use crate::wire::emit::{ETHERNET, EthernetHeader, IpHeader};
use crate::wire::tcp::{CHECKSUM_OFFSET, ChecksumBy, ECN_CAPABLE, ECN_MASK, OutgoingSegment, TCP};

/// Maximum number of segments that a connection sends before others are served.
const BURST: usize = 32;

/// Minimum time in nanoseconds until a connection with an expired timer is served again. Without this
/// minimum, a connection that lacks memory would be served all the time.
const SOON: u64 = 50_000;

/// Time in nanoseconds after which a connection that could not send is served again without another event.
const RETRY: u64 = 1_000_000_000;

/// Lower half of an identification, for the IPv4 header.
fn low_half(identification: u32) -> u16 {
    let [_, _, high, low] = identification.to_be_bytes();
    u16::from_be_bytes([high, low])
}

/// Returns the next segment of a connection. It has at most `most` bytes of data, or one MSS if that is more.
fn next_segment(connection: &mut Connection, most: u32, pool: &mut Pool, now: u64) -> Option<Transmit> {
    if connection.tcp.may_send(now) { connection.tcp.next_segment(most, pool, now) } else { None }
}

/// Result of serving a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// Everything that may be sent now is sent. The next timer is set for this time.
    Done(Option<u64>),
    /// There is more to send, after other connections have been served.
    More,
    /// The transmit queue is full.
    Full,
    /// The MAC address of the neighbor is unknown, or there is no route.
    Waiting,
}

/// Next hop of a connection's packets.
enum Way {
    /// Loopback.
    Local,
    /// Through the device, with this Ethernet header.
    Wire(EthernetHeader),
    /// Not resolved yet.
    Unknown,
}

/// Context of a connection's transmission.
struct Sender<'a> {
    link: &'a mut dyn Link,
    ethernet: EthernetHeader,
    limits: Limits,
    settings: SocketSettings,
}

impl Sender<'_> {
    /// Sends one segment and returns `None`, or returns the outcome if there is no segment or the transmit
    /// queue is full.
    fn send_next(&mut self, connection: &mut Connection, context: &mut Context<'_>) -> Option<Outcome> {
        let (now, pool) = (context.now, context.buffers.pool());
        let remote = connection.tuple.remote.address;
        // Each segment with data may have the timestamps option, 12 bytes.
        let most = u32::from(self.limits.segmented_size(&remote)).saturating_sub(12);
        let Some(mut transmit) = next_segment(connection, most, pool, now) else {
            return Some(Outcome::Done(connection.tcp.deadline()));
        };
        // The device would copy CWR to each segment: send one segment only.
        if transmit.header.flags.contains(Flags::CWR) && transmit.size() > transmit.mss {
            transmit = connection.tcp.next_segment(0, pool, now)?;
        }
        let header = self.ip_header(connection, &transmit);
        let frame = ETHERNET + header.size() + header.size;
        if !self.link.can_transmit(frame) {
            return Some(Outcome::Full);
        }
        let segment = OutgoingSegment {
            ethernet: self.ethernet,
            ip: header,
            ports: (connection.tuple.local.port, connection.tuple.remote.port),
            header: &transmit.header,
            checksum: self.limits.checksum,
            identification: connection
                .may_be_fragmented
                .then(|| low_half(context.ip.next_identification(header.source, header.destination))),
        };
        let tcp = &connection.tcp;
        let offload = self.offload(&header, &transmit);
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

    /// Returns the offloads of a segment.
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

impl Shard {
    /// Sends the segments of a connection. Returns true if it waits for room in the device's transmit queue.
    pub(crate) fn transmit(&mut self, slot: u32, link: &mut dyn Link, context: &mut Context<'_>) -> bool {
        self.visit();
        let outcome = match self.way(slot, link, context) {
            Way::Local => self.send_local(slot, context.buffers.pool(), context.now),
            Way::Wire(header) => self.send_burst(slot, header, link, context),
            Way::Unknown => Outcome::Waiting,
        };
        let is_local =
            || self.sockets.get(slot).and_then(Socket::connection).map(|connection| connection.path);
        match outcome {
            // The loopback queue is drained before the connection is served again.
            Outcome::Full if is_local() == Some(Path::Local) => self.mark(slot),
            Outcome::Full => return true,
            Outcome::More => self.mark(slot),
            Outcome::Done(deadline) => {
                self.end_if_closed(slot, context);
                self.schedule(slot, deadline, context.now);
            }
            Outcome::Waiting => {
                let now = context.now;
                if let Some(connection) = self.connection(slot) {
                    connection.tcp.on_unreachable(now);
                }
                self.drop_unsent(slot, context);
                self.schedule(slot, Some(context.now.saturating_add(RETRY)), context.now);
            }
        }
        false
    }

    /// Resolves the next hop to a connection's peer.
    fn way(&mut self, slot: u32, link: &mut dyn Link, context: &mut Context<'_>) -> Way {
        let now = context.now;
        let Some(connection) = self.connection(slot) else { return Way::Unknown };
        if connection.path == Path::Local {
            return Way::Local;
        }
        let (remote, phase) = (connection.tuple.remote.address, connection.phase);
        let (Some(Route::Neighbor(hop)), Some(interface)) =
            (context.ip.routes.route(remote), context.phy.interface)
        else {
            if phase == Phase::Connecting {
                self.fail(slot, Errno::ENETUNREACH, context);
            }
            return Way::Unknown;
        };
        let Some(destination) = context.ip.resolve(hop, context.phy, link, now) else {
            context.ip.await_connection(hop, slot, context.phy, link, now);
            return Way::Unknown;
        };
        let protocol = EthernetHeader::protocol(&remote);
        Way::Wire(EthernetHeader { source: interface.mac, destination, protocol })
    }

    /// Queues segments of a connection within this host in the loopback.
    fn send_local(&mut self, slot: u32, pool: &mut Pool, now: u64) -> Outcome {
        let connection = self.sockets.get_mut(slot).and_then(Socket::connection_mut);
        let Some(connection) = connection.filter(|connection| connection.is_sending()) else {
            return Outcome::Done(None);
        };
        for _ in 0..BURST {
            let Some(transmit) = next_segment(connection, 0, pool, now) else {
                return Outcome::Done(connection.tcp.deadline());
            };
            if !self.loopback.reserve(usize::try_from(transmit.size()).unwrap_or(usize::MAX)) {
                return Outcome::Full;
            }
            self.loopback.push(connection.tuple, &transmit.header, connection.tcp.payload(&transmit));
            connection.tcp.sent(&transmit, now);
            connection.held = 0;
        }
        Outcome::More
    }

    /// Sends segments of a connection through the device.
    fn send_burst(
        &mut self,
        slot: u32,
        ethernet: EthernetHeader,
        link: &mut dyn Link,
        context: &mut Context<'_>,
    ) -> Outcome {
        let Some(socket) = self.sockets.get_mut(slot) else { return Outcome::Done(None) };
        let settings = socket.settings;
        let Some(connection) = socket.connection_mut().filter(|connection| connection.is_sending()) else {
            return Outcome::Done(None);
        };
        let limits = connection.path.limits(context.phy.interface.as_ref());
        let mut sender = Sender { link, ethernet, limits, settings };
        for _ in 0..BURST {
            if let Some(outcome) = sender.send_next(connection, context) {
                return outcome;
            }
        }
        Outcome::More
    }

    /// Ends a connection that has sent everything and is closed, or moves it to TIME-WAIT.
    fn end_if_closed(&mut self, slot: u32, context: &mut Context<'_>) {
        let now = context.now;
        let Some(socket) = self.sockets.get(slot) else { return };
        let (reuse, is_orphan) = (socket.settings.reuse, socket.is_orphan());
        let Some(connection) = socket.connection() else { return };
        match connection.state() {
            _ if connection.is_over && is_orphan => self.discard(slot, context),
            _ if connection.is_over => (),
            State::TimeWait => {
                let (tuple, last) = (connection.tuple, connection.tcp.acknowledgement(now));
                if self.time_wait.insert(tuple, &last, reuse, context.buffers.pool(), now) {
                    // The port stays counted until the record is removed. The table has an entry for the port
                    // already, so this call cannot fail.
                    let _ = context.tcp_ports.connected(tuple.local.port, reuse);
                }
                self.end(slot, None, context);
            }
            State::Closed => self.end(slot, None, context),
            _ => (),
        }
    }

    /// Discards a closed connection without a socket, instead of waiting until the next hop is resolved.
    fn drop_unsent(&mut self, slot: u32, context: &mut Context<'_>) {
        let socket = self.sockets.get(slot).filter(|socket| socket.is_orphan());
        if socket.and_then(Socket::connection).is_some_and(|connection| connection.is_over) {
            self.discard(slot, context);
        }
    }

    /// Offers written data for transmission. While the device is still sending, small data is held back and
    /// coalesced, since fewer and larger frames are faster.
    pub(super) fn offer(&mut self, slot: u32, link: &mut dyn Link) {
        let Some(connection) = self.connection(slot) else { return };
        let may_wait = connection.may_be_corked();
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

    /// Sets the timer of a connection, but never to a later deadline.
    pub(super) fn schedule(&mut self, slot: u32, deadline: Option<u64>, now: u64) {
        let earliest = now.saturating_add(SOON);
        let connection = self.sockets.get(slot).and_then(Socket::connection);
        if connection.is_some_and(|connection| !connection.is_over) {
            self.timers.advance(slot, deadline.map(|deadline| deadline.max(earliest)));
        }
    }

    /// Handles the expired timer of a connection.
    pub(crate) fn on_timer(&mut self, slot: u32, context: &mut Context<'_>) {
        let Some(connection) = self.sockets.get_mut(slot).and_then(Socket::connection_mut) else { return };
        let events = connection.tcp.on_timer(context.buffers.pool(), context.now);
        if !events.contains(hermit_tcp::Events::CLOSED) {
            return self.mark(slot);
        }
        let error = connection.tcp.failure().map(|_| Errno::ETIMEDOUT);
        match connection.phase {
            Phase::HalfOpen { .. } => self.discard(slot, context),
            _ if connection.tcp.has_reset_to_send() => self.finish(slot, error, context.tcp_ports),
            _ => self.end(slot, error, context),
        }
    }
}
