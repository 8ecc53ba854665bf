//! Fuzz target of the user-mode network: a hostile guest, its peers, and a host that fails.
//!
//! The input is a list of actions, which are executed one after the other. After each action the target
//! checks the limits of the network. It also checks each frame for the guest, and each byte of a stream. At
//! the end all connections fail, and the network must then hold no resources.
//!
//! | module | |
//! | --- | --- |
//! | `actions` | actions that the bytes of the input encode |
//! | `checks` | checks of frames for the guest |
//! | `guest` | frames of the guest, and its TCP connections |
//! | `host` | the host's sockets |

mod actions;
mod checks;
mod frames;
mod guest;
mod host;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr};

use hermit_usernet::config::Config;
use hermit_usernet::host::Token;
use hermit_usernet::sample::MAC;
use hermit_usernet::{Event, Limits, MAX_HEADERS, Readiness, Usage, UserNetwork};

use self::checks::Rules;
use self::guest::Guest;
use self::host::FuzzHost;

/// Ports of the guest that are forwarded.
const TCP_PORTS: [u16; 2] = [80, 443];
const UDP_PORTS: [u16; 2] = [53, 123];

/// Maximum size in bytes of a frame whose segment is large.
const MAX_LARGE_FRAME: usize = 65_553;

/// Time in nanoseconds within which every timer expires. The timer of router advertisements is the longest.
const MAX_DELAY: u64 = 6 * 3_600 * 1_000_000_000;

/// Maximum numbers of frames and of half-open flows, and of bytes that are kept: 64 MiB, and the rest of a
/// buffer that has grown.
const MAX_FRAMES: usize = 256;
const MAX_HALF_OPEN: usize = 1_024 + 128 * TCP_PORTS.len();
const MAX_KEPT: usize = 68 << 20;

/// Maximum number of entries in the queues, in addition to two for each flow in each queue.
const MAX_QUEUED: usize = 256;

/// Maximum number of times that timers expire until no resources are left, and minimum time in nanoseconds
/// between two of these times.
const MAX_EXPIRIES: usize = 60;
const LONG: u64 = 30_000_000_000;

/// User-mode network: `data` encodes its configuration, and the actions of guest, peers and host.
///
/// # Panics
///
/// A frame for the guest is invalid, a stream has other bytes, a limit is exceeded, or something is left at
/// the end.
pub fn usernet(data: &[u8]) {
    let mut source = Source(data);
    let Some(mut world) = World::new(&mut source) else { return };
    while world.act(&mut source).is_some() {
        world.check();
    }
    world.finish();
}

/// Bytes of the input, consumed from the front.
struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    fn up_to(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }
}

/// Network under test, with its guest and host.
struct World {
    network: UserNetwork<FuzzHost>,
    host: FuzzHost,
    guest: Guest,
    rules: Rules,
    /// The frame that the guest has sent last.
    last_frame: Vec<u8>,
    has_flooded: bool,
    /// Space for a frame.
    space: Vec<u8>,
}

impl World {
    fn new(source: &mut Source<'_>) -> Option<Self> {
        let [flags, sizes] = source.take()?;
        let is_set = |bit: u8| flags & 1 << bit != 0;
        let mtu = [1_280, 1_500, 9_000, 65_535][usize::from(sizes & 3)];
        let iss = [0_u32, 0x7fff_ff00, 0xffff_fff0, 0xffff_0000][usize::from(sizes >> 2 & 3)];
        let mut config = Config::new(MAC, mtu);
        config.has_servers = !is_set(0);
        config.has_host_loopback = is_set(1);
        config.guest_v6 = is_set(2).then(|| [0xfd00, 0x10, 0, 2, 0, 0, 0, 0x15].into());
        config.resolver = is_set(3).then(|| ([127, 0, 0, 53], 53).into());
        config.hostname = is_set(4).then(|| "web".to_owned());
        (config.tcp_ports, config.udp_ports) = (TCP_PORTS.to_vec(), UDP_PORTS.to_vec());
        let is_large = is_set(5);
        let mut addresses: HashSet<IpAddr> =
            [config.guest_v4.0.into(), Ipv4Addr::BROADCAST.into()].into_iter().collect();
        addresses.extend(config.guest_v6.map(IpAddr::V6));
        addresses.insert([0xff02, 0, 0, 0, 0, 0, 0, 1].into());
        let max_frame = if is_large { MAX_LARGE_FRAME } else { 14 + usize::from(mtu) };
        let limits = Limits { max_frame, has_large_segments: (is_large, is_large && is_set(6)) };
        let mut network = UserNetwork::new(config);
        network.set_limits(limits);
        let mut host = FuzzHost::new(TCP_PORTS.len(), UDP_PORTS.len(), iss.wrapping_add(1));
        host.room = if is_set(7) { 0 } else { usize::MAX };
        let guest = Guest { iss, connections: Vec::new() };
        let rules = Rules { mtu: mtu.into(), limits, addresses };
        let space = vec![0; MAX_LARGE_FRAME + 1];
        Some(Self { network, host, guest, rules, last_frame: Vec::new(), has_flooded: false, space })
    }

    /// The guest sends a frame.
    fn send(&mut self, frame: Vec<u8>) {
        let head = &frame[..frame.len().min(MAX_HEADERS)];
        self.network.transmit(&mut self.host, head, &&frame[..], frame.len());
        self.last_frame = frame;
    }

    /// The guest receives or loses at most `count` frames.
    fn receive(&mut self, count: usize, is_lost: bool) {
        for _ in 0..count {
            if !self.receive_one(is_lost) {
                break;
            }
        }
    }

    /// The guest receives a frame, or loses it. Returns false if there is none.
    fn receive_one(&mut self, is_lost: bool) -> bool {
        let mut head = Vec::new();
        let max = self.rules.limits.max_frame;
        // Like the device, the target offers one byte more than the maximum.
        let mut space = &mut self.space[..=max];
        let has_output = self.network.has_output();
        let Some(output) = self.network.receive(&mut self.host, &mut head, &mut space) else {
            assert!(!self.network.has_output(), "there is output, but no frame");
            return false;
        };
        assert!(has_output, "there is a frame, but no output");
        let length = head.len() + output.data;
        assert!(length <= max, "a frame has {length} bytes");
        let frame = &mut self.space[..length];
        frame[..head.len()].copy_from_slice(&head);
        output.offload.complete(frame);
        let segment = self.rules.check(frame, output.offload);
        if let Some(segment) = segment.filter(|_| !is_lost) {
            self.guest.receive(&segment, self.host.has_content);
        }
        true
    }

    /// A socket has an event, as epoll(7) reports it.
    fn report(&mut self, at: usize) {
        if let Some(socket) = self.host.streams.get(at) {
            let (token, readiness) = (Token::from(socket.borrow().token), socket.borrow().readiness());
            self.network.handle_event(&mut self.host, Event::Stream(token, readiness));
        }
    }

    /// Time passes, and timers expire.
    fn pass(&mut self, time: u64) {
        self.host.now += time;
        self.network.handle_timers(&mut self.host);
        assert!(self.network.deadline().is_none_or(|at| at > self.host.now), "a timer does not stop");
    }

    /// Checks the limits of the network's resources.
    fn check(&mut self) {
        let usage = self.network.usage();
        let (streams, datagrams) = self.host.open_sockets();
        assert_eq!(usage.tcp_flows, streams, "each TCP flow has a socket");
        assert!(datagrams <= usage.datagram_flows, "{datagrams} sockets, {usage:?}");
        assert!(usage.half_open <= MAX_HALF_OPEN.min(usage.tcp_flows), "{usage:?}");
        assert!(usage.frames <= MAX_FRAMES && usage.kept <= MAX_KEPT, "{usage:?}");
        let max_queued = 4 * usage.tcp_flows + 2 * usage.datagram_flows + MAX_QUEUED;
        assert!(usage.queued <= max_queued, "{usage:?}");
        let latest = self.host.now + MAX_DELAY;
        assert!(self.network.deadline().is_none_or(|at| at <= latest), "{:?}", self.network.deadline());
    }

    /// Makes all connections fail, lets time pass while the guest is silent, and asserts that no resources
    /// are left.
    fn finish(&mut self) {
        self.host.clients.iter_mut().for_each(|clients| clients.clear());
        self.host.open_sockets();
        for socket in &self.host.streams {
            socket.borrow_mut().fail(ErrorKind::ConnectionReset);
        }
        let tokens: Vec<u64> = self.host.streams.iter().map(|socket| socket.borrow().token).collect();
        for token in tokens {
            self.network.handle_event(&mut self.host, Event::Stream(token.into(), Readiness::all()));
        }
        for _ in 0..MAX_EXPIRIES {
            while self.receive_one(false) {}
            if self.network.usage() == Usage::default() {
                break;
            }
            let Some(deadline) = self.network.deadline() else { break };
            self.pass(deadline.saturating_sub(self.host.now).max(LONG));
        }
        assert_eq!((self.network.usage(), self.host.open_sockets()), (Usage::default(), (0, 0)));
    }
}

/// True for an address from which packets are carried (RFC 1122 §3.2.1.3).
fn is_host(address: IpAddr) -> bool {
    let is_broadcast = address == IpAddr::V4(Ipv4Addr::BROADCAST);
    !(address.is_unspecified() || address.is_multicast() || address.is_loopback() || is_broadcast)
}
