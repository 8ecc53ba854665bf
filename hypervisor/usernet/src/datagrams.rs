//! Flows of datagrams: UDP, and ICMP echo.
//!
//! UDP has no connections, so a flow stands for the datagrams between two addresses and ports. It begins with
//! the first datagram, and ends when no datagram has come for some time. A flow that the guest begins has a
//! socket of its own. The socket is connected, so the host drops datagrams from other peers, and reports ICMP
//! errors. The flow of a client of a forwarded port has no socket. It only remembers the client, so that the
//! guest's answers leave through the forwarded port.
//!
//! If the table is full, or no descriptor is free, the least recently used flow ends. A new flow of the guest
//! replaces only a flow of the guest, and a new flow of a client only a flow of a client. TCP may also take
//! descriptors from flows, but [`RESERVED_SOCKETS`] of them remain.

use std::collections::{HashMap, VecDeque};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::Range;

use smoltcp::wire::IpProtocol;

use crate::config::{Config, DNS_PORT};
use crate::emit::{self, Offload, ip_offset};
use crate::host::{Host, Protocol, Token, is_exhausted};
use crate::icmp::{self, Unreachable};
use crate::parse::{ETHERNET, Ends, UDP};
use crate::slab::{Slab, remove_stale};
use crate::tcp::output::{Output, Place};
use crate::{Guest, Usage};

/// Maximum number of flows of the guest, and maximum number of flows of clients of forwarded ports.
const MAX_FLOWS: usize = 4_096;
const MAX_CLIENTS: usize = 1_024;

/// Number of flows with sockets that are kept even if TCP needs descriptors.
const RESERVED_SOCKETS: usize = 64;

/// Time in nanoseconds after which an idle flow ends (RFC 4787 §4.3 asks for two minutes at least).
const IDLE_TIMEOUT: u64 = 180_000_000_000;

/// Idle timeout in nanoseconds of flows to name servers. It is shorter, because each query uses a new port,
/// and thus a new flow.
const DNS_TIMEOUT: u64 = 15_000_000_000;

/// Time in nanoseconds between two searches for idle flows.
const SCAN_INTERVAL: u64 = 15_000_000_000;

/// Size in bytes of the header of an ICMP echo message, and positions in it.
pub(crate) const ECHO: usize = 8;
const CHECKSUM: Range<usize> = 2..4;
const IDENT: Range<usize> = 4..6;

/// Protocol and both ends of a flow. For ICMP echo, the guest's port is the identifier, and the peer's port
/// is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) protocol: Protocol,
    pub(crate) ends: Ends,
}

/// How a flow reaches its peer.
#[derive(Clone, Copy, Debug)]
enum Route<D> {
    Socket(D),
    /// Number of the forwarded port, and address of the client there.
    Port(usize, SocketAddr),
}

#[derive(Debug)]
struct Flow<D> {
    key: Key,
    route: Route<D>,
    last_used: u64,
    is_queued: bool,
}

impl<D> Flow<D> {
    /// Returns true for a flow of a client of a forwarded port, which has no socket.
    const fn is_client(&self) -> bool {
        matches!(self.route, Route::Port(..))
    }

    /// Returns the idle timeout of the flow in nanoseconds.
    const fn timeout(&self) -> u64 {
        if self.key.ends.peer.port() == DNS_PORT { DNS_TIMEOUT } else { IDLE_TIMEOUT }
    }
}

/// Source from which datagrams may have arrived.
#[derive(Clone, Copy, Debug)]
enum Source {
    Flow(Token),
    Port(usize),
}

/// All flows of datagrams.
#[derive(Debug)]
pub(crate) struct Datagrams<D> {
    flows: Slab<Flow<D>>,
    by_key: HashMap<Key, Token>,
    /// Number of flows of clients.
    clients: usize,
    ready: VecDeque<Source>,
    /// For each forwarded port, true if it is in the queue `ready`.
    is_port_queued: Vec<bool>,
    scan_at: Option<u64>,
}

impl<D> Datagrams<D> {
    pub(crate) fn new(ports: usize) -> Self {
        Self {
            flows: Slab::new(MAX_FLOWS + MAX_CLIENTS),
            by_key: HashMap::new(),
            clients: 0,
            ready: VecDeque::new(),
            is_port_queued: vec![false; ports],
            scan_at: None,
        }
    }

    /// Adds the resources of the flows to `usage`.
    pub(crate) fn count(&self, usage: &mut Usage) {
        usage.datagram_flows = self.flows.len();
        usage.queued += self.ready.len();
    }

    /// Returns true if a datagram for the guest may have arrived.
    pub(crate) fn has_output(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Sends a datagram of the guest; `part` is its data in the guest's frame. Returns the reason for an ICMP
    /// error if the guest must learn that the datagram did not arrive.
    pub(crate) fn transmit<H: Host<Datagrams = D>>(
        &mut self,
        host: &mut H,
        config: &Config,
        key: Key,
        (frame, part): (&H::Frame<'_>, Range<usize>),
    ) -> Option<Unreachable> {
        let token = match self.by_key.get(&key) {
            Some(&token) => token,
            None => match self.open(host, config, key) {
                Ok(token) => token?,
                Err(reason) => return Some(reason),
            },
        };
        let flow = self.flows.get_mut(token)?;
        flow.last_used = host.now();
        let result = match &flow.route {
            Route::Socket(socket) => host.send_datagram(socket, frame, part),
            &Route::Port(port, client) => host.reply(port, client, frame, part),
        };
        reason(&result.err()?)
    }

    /// Opens a flow for the guest. Returns `None` if the datagram is dropped without an ICMP error.
    fn open<H: Host<Datagrams = D>>(
        &mut self,
        host: &mut H,
        config: &Config,
        key: Key,
    ) -> Result<Option<Token>, Unreachable> {
        let Some(to) = config.outside(key.ends.peer) else { return Ok(None) };
        if !host.is_permitted(key.protocol, to) {
            return Err(Unreachable::Prohibited);
        }
        if self.sockets() >= MAX_FLOWS {
            self.end_oldest(false);
        }
        let Some(token) = self.flows.next() else { return Ok(None) };
        let mut result = host.open(key.protocol, to, token);
        if result.as_ref().is_err_and(is_exhausted) {
            // The process has no free descriptor, although the table has room. The end of a flow frees one.
            self.end_oldest(false);
            let Some(token) = self.flows.next() else { return Ok(None) };
            result = host.open(key.protocol, to, token);
        }
        match result {
            Ok(socket) => Ok(self.insert(key, Route::Socket(socket), host.now())),
            Err(error) => reason(&error).map_or(Ok(None), Err),
        }
    }

    fn insert(&mut self, key: Key, route: Route<D>, now: u64) -> Option<Token> {
        let flow = Flow { key, route, last_used: now, is_queued: false };
        let is_client = flow.is_client();
        let token = self.flows.insert(flow)?;
        self.clients += usize::from(is_client);
        self.by_key.insert(key, token);
        self.scan_at.get_or_insert(now + SCAN_INTERVAL);
        Some(token)
    }

    /// Returns the number of flows with sockets.
    const fn sockets(&self) -> usize {
        self.flows.len() - self.clients
    }

    /// Closes the least recently used socket, because TCP needs a descriptor. Returns false if only
    /// [`RESERVED_SOCKETS`] are left.
    pub(crate) fn free_socket(&mut self) -> bool {
        let is_freed = self.sockets() > RESERVED_SOCKETS;
        if is_freed {
            self.end_oldest(false);
        }
        is_freed
    }

    /// Ends the least recently used flow of a client if `is_client`, otherwise that of the guest.
    fn end_oldest(&mut self, is_client: bool) {
        let flows = self.flows.iter().filter(|(_, flow)| flow.is_client() == is_client);
        if let Some((token, _)) = flows.min_by_key(|(_, flow)| flow.last_used) {
            self.remove(token);
        }
    }

    fn remove(&mut self, token: Token) {
        if let Some(flow) = self.flows.remove(token) {
            self.by_key.remove(&flow.key);
            self.clients -= usize::from(flow.is_client());
            remove_stale(&mut self.ready, self.flows.len(), |source| match *source {
                Source::Flow(token) => self.flows.get(token).is_some(),
                Source::Port(_) => true,
            });
        }
    }

    /// Records that a flow's socket has a datagram or an error.
    pub(crate) fn note(&mut self, token: Token) {
        let Some(flow) = self.flows.get_mut(token).filter(|flow| !flow.is_queued) else { return };
        flow.is_queued = true;
        self.ready.push_back(Source::Flow(token));
    }

    /// Records that a forwarded port has a datagram.
    pub(crate) fn note_port(&mut self, port: usize) {
        if let Some(is_queued) = self.is_port_queued.get_mut(port).filter(|is_queued| !**is_queued) {
            *is_queued = true;
            self.ready.push_back(Source::Port(port));
        }
    }

    /// Returns the time at which [`Self::handle_timer`] must be called.
    pub(crate) const fn deadline(&self) -> Option<u64> {
        self.scan_at
    }

    /// Ends idle flows, if it is time.
    pub(crate) fn handle_timer(&mut self, now: u64) {
        if self.scan_at.is_none_or(|at| at > now) {
            return;
        }
        for token in self.flows.tokens(|flow| flow.last_used + flow.timeout() <= now) {
            self.remove(token);
        }
        self.scan_at = (self.flows.len() > 0).then_some(now + SCAN_INTERVAL);
    }

    /// Writes the next datagram for the guest. If a socket reports an error instead, returns a separate frame
    /// with an ICMP message.
    pub(crate) fn next_datagram<H: Host<Datagrams = D>>(
        &mut self,
        host: &mut H,
        (config, guest): (&Config, &Guest),
        place: &mut Place<'_, '_, H>,
    ) -> Result<Option<Output>, Vec<u8>> {
        while let Some(source) = self.ready.pop_front() {
            let result = match source {
                Source::Flow(token) => self.receive(host, config, token, place),
                Source::Port(port) => self.receive_at_port(host, (config, guest), port, place),
            };
            match result {
                Ok(Some(output)) => return Ok(Some(output)),
                Ok(None) => {}
                Err(frame) => return Err(frame),
            }
        }
        Ok(None)
    }

    /// Receives a datagram of a flow.
    fn receive<H: Host<Datagrams = D>>(
        &mut self,
        host: &mut H,
        config: &Config,
        token: Token,
        place: &mut Place<'_, '_, H>,
    ) -> Result<Option<Output>, Vec<u8>> {
        let Some(flow) = self.flows.get_mut(token) else { return Ok(None) };
        flow.is_queued = false;
        let Route::Socket(socket) = &flow.route else { return Ok(None) };
        let Key { protocol, ends } = flow.key;
        let offset = ip_offset(ends.peer.is_ipv4()) + UDP;
        let max = max_data(config, ends.peer.is_ipv4()).min(place.limits.max_frame.saturating_sub(offset));
        let mut header = [0; ECHO];
        let header = if protocol == Protocol::Echo { &mut header[..] } else { &mut header[..0] };
        // Provides one byte more than the maximum, so that a datagram that fills the space is known to be too
        // long.
        let result = host.receive(socket, header, place.space, offset..offset + max + 1);
        flow.last_used = host.now();
        match result {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            // The socket may have more datagrams after an error.
            Err(error) => {
                self.note(token);
                let message = reason(&error)
                    .and_then(|reason| icmp::datagram_unreachable(config, reason, protocol, ends));
                message.map_or(Ok(None), Err)
            }
            Ok(length) => {
                let output = match protocol {
                    Protocol::Echo => write_echo(config, ends, header, length, place),
                    _ => write_udp(config, ends, length, place),
                };
                // The flow goes to the end of the queue, so that flows take turns.
                self.note(token);
                Ok((length <= max).then_some(output))
            }
        }
    }

    /// Receives a datagram at a forwarded port.
    fn receive_at_port<H: Host<Datagrams = D>>(
        &mut self,
        host: &mut H,
        (config, guest): (&Config, &Guest),
        port: usize,
        place: &mut Place<'_, '_, H>,
    ) -> Result<Option<Output>, Vec<u8>> {
        if let Some(is_queued) = self.is_port_queued.get_mut(port) {
            *is_queued = false;
        }
        let guest_port = config.udp_ports.get(port).copied().unwrap_or_default();
        // The position of the data depends on the IP version, and must be known before the datagram is
        // received. So the guest gets all datagrams of forwarded ports over IPv4.
        let offset = ip_offset(true) + UDP;
        let max = max_data(config, true).min(place.limits.max_frame.saturating_sub(offset));
        let datagram = match host.receive_from(port, place.space, offset..offset + max + 1) {
            Ok(datagram) => datagram,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(_) => {
                self.note_port(port);
                return Ok(None);
            }
        };
        self.note_port(port);
        let to = SocketAddr::new(guest.v4.into(), guest_port);
        let Some(ends) = self.client(host, config, (port, to), datagram.from) else { return Ok(None) };
        let output = write_udp(config, ends, datagram.length, place);
        Ok((datagram.length <= max).then_some(output))
    }

    /// Adds the flow of a client of a forwarded port.
    fn insert_client(&mut self, key: Key, (port, from): (usize, SocketAddr), now: u64) -> Option<Ends> {
        if self.clients >= MAX_CLIENTS {
            self.end_oldest(true);
        }
        self.insert(key, Route::Port(port, from), now).map(|_| key.ends)
    }

    /// Returns the ends of the flow of a client of a forwarded port, and adds the flow if it is new.
    fn client<H: Host<Datagrams = D>>(
        &mut self,
        host: &H,
        config: &Config,
        (port, guest): (usize, SocketAddr),
        from: SocketAddr,
    ) -> Option<Ends> {
        let mut peer = config.inside(from, guest.ip());
        let now = host.now();
        for _ in 0..=u16::MAX {
            let key = Key { protocol: Protocol::Udp, ends: Ends { guest, peer } };
            let Some(&token) = self.by_key.get(&key) else {
                return self.insert_client(key, (port, from), now);
            };
            let flow = self.flows.get_mut(token)?;
            if matches!(flow.route, Route::Port(other, client) if (other, client) == (port, from)) {
                flow.last_used = now;
                return Some(key.ends);
            }
            // Another client has the same address and port from the guest's view. So this client appears with
            // the gateway's address, and the next port is tried.
            peer = SocketAddr::new(config.gateway(guest.ip()), peer.port().wrapping_add(1).max(1));
        }
        None
    }
}

/// Returns the maximum number of bytes of data in a datagram for the guest.
fn max_data(config: &Config, is_v4: bool) -> usize {
    let headers = ip_offset(is_v4) - ETHERNET + UDP;
    usize::from(config.mtu).saturating_sub(headers)
}

fn write_udp<H: Host>(config: &Config, ends: Ends, length: usize, place: &mut Place<'_, '_, H>) -> Output {
    Output { data: length, offload: emit::write_udp(config.guest_mac, ends, length, place.head) }
}

/// Writes the headers of an echo reply. The guest's identifier replaces that of the host's socket.
fn write_echo<H: Host>(
    config: &Config,
    ends: Ends,
    echo: &mut [u8],
    length: usize,
    place: &mut Place<'_, '_, H>,
) -> Output {
    let protocol = if ends.peer.is_ipv4() { IpProtocol::Icmp } else { IpProtocol::Icmpv6 };
    let ident = ends.guest.port().to_be_bytes();
    let old = [word(echo, IDENT), word(echo, CHECKSUM)];
    let ips = (ends.peer.ip(), ends.guest.ip());
    // The checksum of ICMPv6 also covers the addresses, which have changed, so the receiver computes it anew.
    let checksum = if ends.peer.is_ipv4() {
        replaced_checksum(old[1], old[0], u16::from_be_bytes(ident))
    } else {
        emit::pseudo_header(ips, protocol, ECHO + length)
    };
    for (part, bytes) in [(IDENT, ident), (CHECKSUM, checksum.to_be_bytes())] {
        if let Some(place) = echo.get_mut(part) {
            place.copy_from_slice(&bytes);
        }
    }
    emit::write_ip_header(place.head, config.guest_mac, ips, protocol, ECHO + length);
    place.head.extend_from_slice(echo);
    let checksum = (!ends.peer.is_ipv4()).then(|| emit::checksum_of(ip_offset(false), CHECKSUM.start));
    Output { data: length, offload: Offload { checksum, ..Offload::default() } }
}

fn word(bytes: &[u8], part: Range<usize>) -> u16 {
    bytes.get(part).and_then(|bytes| bytes.first_chunk()).map_or(0, |&bytes| u16::from_be_bytes(bytes))
}

/// Returns the checksum after a word was replaced (RFC 1624 §3).
fn replaced_checksum(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = u32::from(!checksum) + u32::from(!old) + u32::from(new);
    let sum = (sum & 0xffff) + (sum >> 16);
    let [_, _, high, low] = ((sum & 0xffff) + (sum >> 16)).to_be_bytes();
    !u16::from_be_bytes([high, low])
}

/// Returns the reason of an ICMP error that a socket error stands for; `None` for other socket errors.
fn reason(error: &io::Error) -> Option<Unreachable> {
    match error.kind() {
        ErrorKind::ConnectionRefused => Some(Unreachable::Port),
        ErrorKind::NetworkUnreachable => Some(Unreachable::Network),
        ErrorKind::HostUnreachable | ErrorKind::AddrNotAvailable => Some(Unreachable::Host),
        ErrorKind::PermissionDenied => Some(Unreachable::Prohibited),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::replaced_checksum;
    use proptest::{prop_assert_eq, proptest};
    use smoltcp::wire::checksum;

    proptest! {
        #[test]
        fn replaced_checksum_is_that_of_the_new_words(words: [u16; 4], new: u16) {
            let sum = |words: [u16; 4]| !checksum::data(&words.map(u16::to_be_bytes).concat());
            // A sum of 0 has two representations.
            proptest::prop_assume!(words[1..].iter().any(|&word| word != 0));
            let [_, b, c, d] = words;
            prop_assert_eq!(replaced_checksum(sum(words), words[0], new), sum([new, b, c, d]));
        }
    }
}
