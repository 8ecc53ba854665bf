//! Fuzz targets of the network stack.
//!
//! The fuzzer's bytes are a script: socket calls of two hosts, faults of the link between them (loss,
//! corruption), and packets from strangers with correct lengths and checksums, such as fragments and neighbor
//! discovery. A third host has no addresses: the script sends it router advertisements and DHCP replies. A
//! second target has one end of a TCP connection instead, a third one the kernel's resolver.

#![forbid(unsafe_code)]

mod connection;
mod names;
mod packets;
mod unconfigured;

pub use connection::connection;
pub use names::names;

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::{env, fs, io};

use hermit_net_stack::{
    Cidr, Configuration, Family, Host, Kind, NetDevice, NetDeviceInfo, Offload, OptionName, Random,
    ReceivedInfo, Shutdown, SocketId, SocketOption, Stack,
};

/// A millisecond in nanoseconds.
const MILLISECOND: u64 = 1_000_000;

/// Limit on the stack's buffers in bytes. It is low, since clearing larger buffers would take most of a run's
/// time.
const BUFFER_LIMIT: usize = 512 << 10;

/// Frames in flight in one direction.
type FrameQueue = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// A network device at one end of a link.
struct Port {
    number: u8,
    incoming: FrameQueue,
    outgoing: FrameQueue,
}

impl NetDevice for Port {
    fn info(&self) -> NetDeviceInfo {
        let mac = [2, 0, 0, 0, 0, self.number];
        NetDeviceInfo {
            mac,
            mtu: 1500,
            fills_checksums: true,
            segments_v4: Some(65_536),
            segments_v6: Some(65_536),
        }
    }

    fn receive<R>(&mut self, take: impl FnOnce(&[u8], ReceivedInfo) -> R) -> Option<R> {
        let frame = self.incoming.borrow_mut().pop_front()?;
        // A fuzzer does not find correct checksums, so they count as verified.
        Some(take(&frame, ReceivedInfo { checksum_good: true }))
    }

    fn can_transmit(&mut self, _size: usize) -> bool {
        self.outgoing.borrow().len() < 64
    }

    fn transmit(&mut self, size: usize, _offload: Offload, fill: impl FnOnce(&mut [u8])) {
        let mut frame = vec![0; size];
        fill(&mut frame);
        self.outgoing.borrow_mut().push_back(frame);
    }
}

/// A host whose random numbers are the same in each run.
struct DeterministicHost(u64);

impl Random for DeterministicHost {
    fn random(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0
    }
}

impl Host for DeterministicHost {
    fn wake(&mut self, _cookie: usize) {}
}

/// A host with its stack.
struct NetworkNode {
    stack: Stack<Port, DeterministicHost>,
    /// Frames for this host.
    incoming: FrameQueue,
    sockets: Vec<SocketId>,
}

fn address(number: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, number).into()
}

/// Two hosts with addresses, each with a listener and a UDP socket.
fn nodes() -> [NetworkNode; 2] {
    let (one, other) = (FrameQueue::default(), FrameQueue::default());
    let node = |number: u8, incoming: &FrameQueue, outgoing: &FrameQueue| {
        let port = Port { number, incoming: Rc::clone(incoming), outgoing: Rc::clone(outgoing) };
        let v6 = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number.into()).into();
        let addresses = vec![Cidr { address: address(number), prefix: 24 }, Cidr { address: v6, prefix: 64 }];
        let nameservers = vec![address(3 - number)];
        let configuration = Configuration {
            addresses,
            nameservers,
            buffers: BUFFER_LIMIT,
            shards: number.into(),
            ..Configuration::default()
        };
        let stack = Stack::new(Some(port), DeterministicHost(number.into()), configuration, 0);
        NetworkNode { stack, incoming: Rc::clone(incoming), sockets: Vec::new() }
    };
    // The script moves frames from a host's outgoing queue to the other one's incoming queue.
    let (from_one, from_other) = (FrameQueue::default(), FrameQueue::default());
    let mut nodes = [node(1, &one, &from_one), node(2, &other, &from_other)];
    for node in &mut nodes {
        let stack = &mut node.stack;
        let listener = stack.socket(Family::V6, Kind::Stream, 1).expect("memory");
        stack.bind(listener, "[::]:80".parse().expect("an address")).expect("a free port");
        stack.listen(listener, 4).expect("a listener");
        let udp_socket = stack.socket(Family::V6, Kind::Datagram, 2).expect("memory");
        stack.bind(udp_socket, "[::]:7".parse().expect("an address")).expect("a free port");
        node.sockets.extend([listener, udp_socket]);
    }
    nodes
}

/// A host without addresses, which sends router solicitations and DHCP requests.
fn unconfigured_node() -> NetworkNode {
    let (incoming, outgoing) = (FrameQueue::default(), FrameQueue::default());
    let port = Port { number: 3, incoming: Rc::clone(&incoming), outgoing };
    let configuration = Configuration { buffers: BUFFER_LIMIT, ..Configuration::default() };
    NetworkNode {
        stack: Stack::new(Some(port), DeterministicHost(3), configuration, 0),
        incoming,
        sockets: Vec::new(),
    }
}

/// Sends a frame to the host without addresses, or asks it for a name of its own.
fn act_on_unconfigured(node: &mut NetworkNode, what: u8, script: &mut Script<'_>) {
    let frame = match what {
        0 => Some(unconfigured::router_advertisement(script)),
        1 => unconfigured::dhcp_reply(node, script),
        2 => {
            let count = usize::from(script.byte());
            Some(script.bytes(count).to_vec())
        }
        _ => {
            let _ = node.stack.known_addresses("host.hermit.internal");
            None
        }
    };
    node.incoming.borrow_mut().extend(frame);
}

/// Rest of the script. Bytes are taken from its start, and are 0 after its end.
struct Script<'a>(&'a [u8]);

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let (&first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        first
    }

    fn bytes(&mut self, count: usize) -> &[u8] {
        let (bytes, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        bytes
    }
}

/// Runs `data` as a script.
///
/// # Panics
///
/// Only if the stack has a bug.
pub fn stack(data: &[u8]) {
    let mut nodes = nodes();
    let mut third = unconfigured_node();
    let wires = nodes.each_mut().map(|node| Rc::clone(&node.stack.device().expect("a device").outgoing));
    let mut script = Script(data);
    let mut now = 0;
    while !script.0.is_empty() {
        let command = script.byte();
        let which = usize::from(command & 1);
        match command >> 1 & 15 {
            // Bits 5 to 7 have no other meaning.
            _ if command >> 5 == 5 => act_on_unconfigured(&mut third, command & 3, &mut script),
            _ if command >> 5 == 6 => {
                let node = if command & 2 == 0 { &mut nodes[which] } else { &mut third };
                let number = if command & 2 == 0 { command % 2 + 1 } else { 3 };
                node.incoming.borrow_mut().extend(packets::frames(&mut script, number));
            }
            0 => deliver(&wires[which], &nodes[1 - which].incoming, usize::MAX),
            1 => deliver(&wires[which], &nodes[1 - which].incoming, 1),
            2 => drop(wires[which].borrow_mut().pop_front()),
            3 => corrupt(&wires[which], &mut script),
            4 => duplicate(&wires[which]),
            5 => {
                let count = usize::from(script.byte());
                let frame = script.bytes(count).to_vec();
                nodes[which].incoming.borrow_mut().push_back(frame);
            }
            6 => now += u64::from(script.byte()) * MILLISECOND,
            7 => now += u64::from(script.byte()) * 1000 * MILLISECOND,
            _ => act(&mut nodes[which], command >> 1 & 7, &mut script, 2 - command % 2),
        }
        for node in &mut nodes {
            node.stack.poll(now);
        }
        third.stack.poll(now);
        // No host receives these frames. Only the last ones are kept, for replies.
        if let Some(device) = third.stack.device() {
            let mut outgoing = device.outgoing.borrow_mut();
            let old = outgoing.len().saturating_sub(8);
            outgoing.drain(..old);
        }
    }
}

/// Moves up to `count` frames to the other host.
fn deliver(from: &FrameQueue, to: &FrameQueue, count: usize) {
    for _ in 0..count {
        let Some(frame) = from.borrow_mut().pop_front() else { return };
        to.borrow_mut().push_back(frame);
    }
}

/// Changes some bytes of the next frame, and may truncate it.
fn corrupt(wire: &FrameQueue, script: &mut Script<'_>) {
    let mut wire = wire.borrow_mut();
    let Some(frame) = wire.front_mut() else { return };
    for _ in 0..script.byte() % 8 {
        let (offset, mask) = (usize::from(script.byte()), script.byte());
        if let Some(byte) = frame.get_mut(offset) {
            *byte ^= mask;
        }
    }
    let size = usize::from(script.byte());
    if size > 128 {
        frame.truncate(size);
    }
}

/// Duplicates the next frame.
fn duplicate(wire: &FrameQueue) {
    let mut wire = wire.borrow_mut();
    if let Some(frame) = wire.front().cloned() {
        wire.push_back(frame);
    }
}

/// Makes a call on one of a host's sockets.
fn act(node: &mut NetworkNode, what: u8, script: &mut Script<'_>, peer: u8) {
    let NetworkNode { stack, sockets, .. } = node;
    let choice = usize::from(script.byte()) % sockets.len().max(1);
    let Some(&socket) = sockets.get(choice) else { return };
    let to = SocketAddr::new(address(peer), if choice % 2 == 0 { 80 } else { 7 });
    match what {
        0 if sockets.len() < 16 => {
            let kind = if choice % 2 == 0 { Kind::Stream } else { Kind::Datagram };
            let new = stack.socket(Family::V4, kind, 3).expect("memory");
            let _ = stack.connect(new, to);
            let (group, interface) = (Ipv4Addr::new(224, 0, 0, 1), Ipv4Addr::UNSPECIFIED);
            let _ = stack.set_option(new, SocketOption::group_v4(OptionName::JoinV4, group, interface));
            sockets.push(new);
        }
        1 => {
            if let Ok((new, _)) = stack.accept(socket, 4) {
                sockets.push(new);
            }
        }
        2 => drop(stack.send(socket, &[7; 3000][..usize::from(script.byte()) * 10], None)),
        3 => drop(stack.receive(socket, script.byte().is_multiple_of(4), &mut |bytes| bytes.len())),
        4 => {
            let how = if script.byte().is_multiple_of(2) { Shutdown::Write } else { Shutdown::Both };
            let _ = stack.shutdown(socket, how);
        }
        5 => {
            if script.byte().is_multiple_of(2) {
                let _ = stack.finish(socket);
            }
            let _ = stack.close(socket);
            sockets.swap_remove(choice);
        }
        6 => drop(stack.known_addresses("host.hermit.internal")),
        _ => {
            let readiness = stack.readiness(socket);
            assert!(readiness.read || !readiness.read_hang_up);
        }
    }
}

/// Runs a target on the files that the command line names, without libFuzzer.
///
/// # Errors
///
/// A file cannot be read.
pub fn replay(target: fn(&[u8])) -> io::Result<()> {
    for file in env::args_os().skip(1) {
        target(&fs::read(file)?);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{MILLISECOND, Script, connection, nodes, packets, stack};

    /// Pseudorandom numbers, always the same.
    fn random() -> impl Iterator<Item = [u8; 8]> {
        let next = |state: &u64| {
            Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
        };
        std::iter::successors(Some(1), next).map(u64::to_be_bytes)
    }

    /// Random scripts for the third host. smoltcp would panic here if router advertisements reached it
    /// unfiltered.
    #[test]
    fn random_frames_do_not_panic() {
        let mut random = random().skip(1);
        for _ in 0..3000 {
            let mut data = Vec::new();
            for bytes in random.by_ref().take(60) {
                data.push(0xa0 | bytes[0] & 3);
                data.extend(&bytes[1..]);
            }
            stack(&data);
        }
    }

    /// Returns a command of a script with arguments. Three of four are packets; others advance time, and
    /// connect.
    fn packet_command(bytes: [u8; 8]) -> [u8; 8] {
        let kind = if bytes[0] < 192 { 0xc0 } else { 0 };
        let mut command = bytes;
        command[0] = kind | bytes[0] & 31;
        command
    }

    /// Random packets with correct lengths and checksums, for all hosts.
    #[test]
    fn random_packets_do_not_panic() {
        let mut random = random();
        for number in 0..scripts() {
            let data: Vec<u8> = random.by_ref().take(150).flat_map(packet_command).collect();
            if std::panic::catch_unwind(|| stack(&data)).is_err() {
                panic!("script {number}: {data:?}");
            }
        }
    }

    #[test]
    fn generated_packets_reach_their_socket() {
        let [mut node, _] = nodes();
        // Datagrams by the kind of packet: whole or fragmented, of IPv4 or IPv6.
        let mut counts = [0; 4];
        let mut random = random();
        for now in 0..20_000 {
            let data: Vec<u8> = random.by_ref().take(20).flatten().collect();
            let kind = usize::from(data[0] % 2) + usize::from(data[0] % 8 / 4) * 2;
            let frames = packets::frames(&mut Script(&data), 1);
            node.incoming.borrow_mut().extend(frames);
            node.stack.poll(now * MILLISECOND);
            while node.stack.receive(node.sockets[1], false, &mut |bytes| bytes.len()).is_ok() {
                counts[kind] += 1;
            }
        }
        assert!(counts.iter().all(|&count| count > 20), "{counts:?}");
    }

    #[test]
    fn random_segments_and_calls_do_not_harm_a_connection() {
        let mut random = random();
        for number in 0..scripts() {
            let data: Vec<u8> =
                random.by_ref().take(150).flat_map(|bytes| [bytes[0], bytes[1], bytes[2]]).collect();
            if std::panic::catch_unwind(|| connection(&data)).is_err() {
                panic!("script {number}: {data:?}");
            }
        }
    }

    /// Number of scripts: more are run by hand.
    fn scripts() -> usize {
        std::env::var("HERMIT_FUZZ_SCRIPTS").ok().and_then(|count| count.parse().ok()).unwrap_or(1000)
    }
}
