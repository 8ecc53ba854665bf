//! Simulated hosts on a wire in memory, in virtual time.
//!
//! A [`World`] has complete stacks, each with a simulated device and system, on one wire. `run` and
//! `run_until` advance the virtual time to the next deadline or frame, and poll the stacks, so that a test of
//! minutes takes milliseconds. All random numbers have seeds: each run is the same. A test may inject
//! packets, cut the wire, or replace a host by a [`peer`] that sends arbitrary segments.

pub(crate) mod peer;
pub(crate) mod wire;

use crate::testing::wire::{Faults, SimDevice, Wire};
use crate::wire::emit::{EthernetHeader, IpHeader};
use crate::{
    Cidr, Configuration, Errno, Family, Host, Kind, NetDevice, Offload, Random, Readiness, SocketId, Stack,
};
use core::net::{IpAddr, SocketAddr};
use smoltcp::wire::{EthernetAddress, IpProtocol};
use std::cell::RefCell;
use std::collections::HashSet;
use std::rc::Rc;
use std::vec;
use std::vec::Vec;

pub(crate) const MILLISECOND: u64 = 1_000_000;
pub(crate) const SECOND: u64 = 1000 * MILLISECOND;

/// Number of shards of each host. There are several shards, so that no code relies on a single one.
pub(crate) const SHARDS: u32 = 3;

/// A simulated system around a stack.
#[derive(Debug)]
pub(crate) struct System {
    state: u64,
    /// Waker keys that were woken since the set was last cleared.
    pub(crate) woken: HashSet<usize>,
    /// True if there was a wake-up since the time last advanced.
    has_woken: bool,
}

impl System {
    pub(crate) fn new(seed: u64) -> Self {
        Self { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, woken: HashSet::new(), has_woken: false }
    }
}

impl Random for System {
    fn random(&mut self) -> u64 {
        // Marsaglia: Xorshift RNGs, 2003.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }
}

impl Host for System {
    fn wake(&mut self, waker_key: usize) {
        self.woken.insert(waker_key);
        self.has_woken = true;
    }
}

pub(crate) type Node = Stack<SimDevice, System>;

/// Hosts on one wire.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) wire: Rc<RefCell<Wire>>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) now: u64,
}

/// IPv4 address of a host by its number.
pub(crate) fn v4(node: usize) -> IpAddr {
    [10, 0, 0, u8::try_from(node + 1).unwrap()].into()
}

pub(crate) fn v6(node: usize) -> IpAddr {
    [0xfd00, 0, 0, 0, 0, 0, 0, u16::try_from(node + 1).unwrap()].into()
}

/// MAC address of a host by its number.
pub(crate) fn mac(node: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, u8::try_from(node).unwrap()]
}

/// Returns the header of a packet from one host to another.
pub(crate) fn header(from: IpAddr, to: IpAddr, protocol: IpProtocol, size: usize) -> IpHeader {
    IpHeader { source: from, destination: to, protocol, size, hop_limit: 64, class: 0 }
}

pub(crate) fn configuration(node: usize) -> Configuration {
    Configuration {
        addresses: vec![Cidr { address: v4(node), prefix: 24 }, Cidr { address: v6(node), prefix: 64 }],
        buffers: 64 << 20,
        shards: SHARDS,
        ..Configuration::default()
    }
}

impl World {
    /// Creates hosts with static addresses, on a wire without faults.
    pub(crate) fn new(count: usize) -> Self {
        Self::with((0..count).map(|node| (configuration(node), SimDevice::plain(node))), Faults::default())
    }

    /// Creates hosts with these configurations and devices.
    pub(crate) fn with(nodes: impl IntoIterator<Item = (Configuration, SimDevice)>, faults: Faults) -> Self {
        let wire = Rc::new(RefCell::new(Wire::new(faults)));
        let mut world = Self { wire, nodes: Vec::new(), now: 0 };
        for (configuration, port) in nodes {
            world.add(configuration, port);
        }
        world
    }

    /// Adds a host; returns its number.
    pub(crate) fn add(&mut self, configuration: Configuration, mut port: SimDevice) -> usize {
        let number = self.nodes.len();
        port.attach(&self.wire);
        let system = System::new(number as u64 + 7);
        self.nodes.push(Stack::new(Some(port), system, configuration, self.now));
        number
    }

    /// Advances time by at most `time`, until a condition holds. Returns true if it does.
    pub(crate) fn run_until(&mut self, time: u64, mut is_so: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + time;
        loop {
            let mut next = end + 1;
            for node in &mut self.nodes {
                next = next.min(node.poll(self.now).unwrap_or(u64::MAX));
            }
            if is_so(self) {
                return true;
            }
            if self.nodes.iter_mut().any(|node| core::mem::take(&mut node.host().has_woken)) {
                next = self.now;
            }
            next = next.min(self.wire.borrow().next_arrival());
            if next > end {
                self.now = end;
                self.nodes.iter_mut().for_each(|node| node.advance(end));
                return false;
            }
            // Each step takes time, so that a loop without progress is detected.
            self.now = self.now.max(next) + 1;
            self.wire.borrow_mut().now = self.now;
        }
    }

    /// Advances time.
    pub(crate) fn run(&mut self, time: u64) {
        self.run_until(time, |_| false);
    }

    pub(crate) fn socket(&mut self, node: usize, family: Family, kind: Kind) -> SocketId {
        self.nodes[node].socket(family, kind, 1000 + node).unwrap()
    }

    /// Creates and returns a listener on all addresses of a host.
    pub(crate) fn listen(&mut self, node: usize, port: u16, backlog: i32) -> SocketId {
        let listener = self.socket(node, Family::V6, Kind::Stream);
        self.nodes[node].bind(listener, SocketAddr::new("::".parse().unwrap(), port)).unwrap();
        self.nodes[node].listen(listener, backlog).unwrap();
        listener
    }

    /// Starts to connect; returns the socket.
    pub(crate) fn start(&mut self, node: usize, to: SocketAddr) -> SocketId {
        let family = if to.is_ipv4() { Family::V4 } else { Family::V6 };
        let socket = self.socket(node, family, Kind::Stream);
        assert_eq!(self.nodes[node].connect(socket, to), Err(Errno::EINPROGRESS));
        socket
    }

    /// Connects to a listener; returns both sockets, or `None` if that fails.
    pub(crate) fn try_connect(
        &mut self,
        from: usize,
        to: SocketAddr,
        (node, listener): (usize, SocketId),
    ) -> Option<(SocketId, SocketId)> {
        let client = self.start(from, to);
        let mut server = None;
        self.run_until(60 * SECOND, |world| {
            server = server.or_else(|| world.nodes[node].accept(listener, 5).ok().map(|(id, _)| id));
            let readiness = world.nodes[from].readiness(client);
            readiness.error || server.is_some() && readiness.write
        });
        match server.filter(|_| !self.nodes[from].readiness(client).error) {
            Some(server) => Some((client, server)),
            None => {
                self.nodes[from].close(client).unwrap();
                None
            }
        }
    }

    /// Connects to a listener; returns both sockets.
    pub(crate) fn connect(
        &mut self,
        from: usize,
        to: SocketAddr,
        listener: (usize, SocketId),
    ) -> (SocketId, SocketId) {
        self.try_connect(from, to, listener).unwrap()
    }

    /// Creates two hosts with a connection between them.
    pub(crate) fn pair() -> (Self, SocketId, SocketId) {
        let mut world = Self::new(2);
        let listener = world.listen(1, 80, 8);
        let (client, server) = world.connect(0, SocketAddr::new(v4(1), 80), (1, listener));
        (world, client, server)
    }

    /// Sends a packet with a host's MAC address, bypassing the host's stack.
    pub(crate) fn inject(
        &mut self,
        node: usize,
        to: [u8; 6],
        header: IpHeader,
        fill: impl FnOnce(&mut [u8]),
    ) {
        let port = self.nodes[node].device().unwrap();
        let ethernet = EthernetHeader {
            source: EthernetAddress(port.info().mac),
            destination: EthernetAddress(to),
            protocol: EthernetHeader::protocol(&header.source),
        };
        port.transmit(14 + header.size() + header.size, Offload::default(), |bytes| {
            fill(header.write(ethernet.write(bytes)));
        });
    }

    pub(crate) fn readiness(&self, node: usize, socket: SocketId) -> Readiness {
        self.nodes[node].readiness(socket)
    }

    /// Receives from a socket.
    pub(crate) fn receive(&mut self, node: usize, socket: SocketId) -> Result<Vec<u8>, Errno> {
        let mut all = Vec::new();
        let mut take = |bytes: &[u8]| {
            all.extend_from_slice(bytes);
            bytes.len()
        };
        self.nodes[node].receive(socket, false, &mut take)?;
        Ok(all)
    }

    /// Receives a datagram, with its sender.
    pub(crate) fn receive_from(
        &mut self,
        node: usize,
        socket: SocketId,
    ) -> Result<(Vec<u8>, SocketAddr), Errno> {
        let mut all = Vec::new();
        let mut take = |bytes: &[u8]| {
            all.extend_from_slice(bytes);
            bytes.len()
        };
        let (_, from) = self.nodes[node].receive(socket, false, &mut take)?;
        Ok((all, from.unwrap()))
    }

    /// Sends bytes and a FIN from one socket to the other; returns the received bytes.
    pub(crate) fn transfer(
        &mut self,
        (from, source): (usize, SocketId),
        (to, sink): (usize, SocketId),
        bytes: &[u8],
        timeout: u64,
    ) -> Vec<u8> {
        let mut sent = 0;
        let mut received = Vec::new();
        let mut is_shut = false;
        self.run_until(timeout, |world| {
            // With a full buffer, `send` fails: nothing is sent.
            sent += world.nodes[from].send(source, &bytes[sent..], None).unwrap_or(0);
            if sent == bytes.len() && !is_shut {
                world.nodes[from].shutdown(source, crate::Shutdown::Write).unwrap();
                is_shut = true;
            }
            world.nodes[from].poll(world.now);
            loop {
                match world.receive(to, sink) {
                    Ok(more) if more.is_empty() => return true,
                    Ok(more) => received.extend(more),
                    Err(_) => break,
                }
            }
            world.nodes[to].poll(world.now);
            false
        });
        received
    }

    /// Asserts that no host has state of connections, except for TIME-WAIT records.
    pub(crate) fn assert_nothing_left(&self, sockets: usize) {
        for node in &self.nodes {
            let tcp = &node.layers.tcp;
            let left = tcp.connections().into_iter().map(|slot| tcp.of(slot).sockets.get(slot).unwrap());
            let left: Vec<_> =
                left.map(|socket| (socket.waker_key, socket.connection().unwrap().state())).collect();
            assert_eq!(left, []);
            assert!(node.layers.tcp.half_open().is_empty());
            assert_eq!(node.layers.buffers.used(), node.layers.tcp.time_wait_memory());
        }
        let left: usize =
            self.nodes.iter().map(|node| node.layers.tcp.sockets() + node.layers.udp.sockets.len()).sum();
        assert_eq!(left, sockets);
    }
}

/// Test data that shows reordering.
pub(crate) fn pattern(size: usize) -> Vec<u8> {
    // The period of the pattern; shorter with Miri, which takes seconds to compute it.
    const PERIOD: usize = 251 * if cfg!(miri) { 7 } else { 128 };
    let contents = |index: usize| u8::try_from((index * 7 + index / 251) % 256).unwrap();
    let mut bytes = (0..size.min(PERIOD)).map(contents).collect::<Vec<_>>().repeat(size.div_ceil(PERIOD));
    bytes.truncate(size);
    bytes
}
