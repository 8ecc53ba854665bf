//! Actions of guest, peers and host. An action is encoded as one byte, followed by its arguments.

use std::io::ErrorKind;
use std::net::SocketAddr;

use hermit_usernet::host::Token;
use hermit_usernet::{Event, Limits, Readiness};

use super::host::Failure;
use super::{MAX_LARGE_FRAME, Source, TCP_PORTS, UDP_PORTS, World};

/// Peers that connect or send datagrams.
const CLIENTS: [&str; 6] =
    ["198.51.100.7", "127.0.0.1", "10.0.2.15", "2001:db8::7", "::1", "::ffff:198.51.100.7"];

/// Numbers of bytes.
const COUNTS: [usize; 8] = [0, 1, 100, 1_460, 1_473, 3_000, 20_000, 70_000];

/// Times in nanoseconds, from almost nothing up to the lifetime of a flow.
const TIMES: [u64; 8] = [
    1,
    1_000_000,
    6_000_000,
    600_000_000,
    3_000_000_000,
    20_000_000_000,
    200_000_000_000,
    7 * 3_600 * 1_000_000_000,
];

/// Errors of calls (errno(3)): errors of connections, of missing descriptors and memory, and of datagrams.
const ERRORS: [i32; 12] = [111, 101, 113, 13, 110, 24, 12, 5, 99, 11, 104, 90];

/// Errors of connections.
const KINDS: [ErrorKind; 4] = [
    ErrorKind::ConnectionReset,
    ErrorKind::ConnectionRefused,
    ErrorKind::TimedOut,
    ErrorKind::HostUnreachable,
];

impl World {
    /// Performs the next action; `None` at the end of the input.
    pub(super) fn act(&mut self, source: &mut Source<'_>) -> Option<()> {
        let [action] = source.take()?;
        match action % 32 {
            0..13 => self.guest_acts(action % 32, source),
            13..24 => self.peer_acts(action % 32, source),
            24 => {
                let [time] = source.take()?;
                self.pass(TIMES[usize::from(time % 8)]);
                Some(())
            }
            25..28 => {
                let [count] = source.take()?;
                self.receive(count.into(), action % 32 == 27);
                Some(())
            }
            other => self.host_acts(other, source),
        }
    }

    fn guest_acts(&mut self, action: u8, source: &mut Source<'_>) -> Option<()> {
        match action {
            0..4 => self.send_segment(source.take()?),
            4 => self.open(source.take()?),
            5 => self.send_datagram(source.take()?),
            6 => self.send_echo(source.take()?),
            7 => self.send_arp(source.take()?),
            8 => self.send_dhcp(source.take()?),
            9 => self.send_neighbor_discovery(source.take()?),
            10 => {
                let [kind, protocol, length] = source.take()?;
                self.send_raw(kind, protocol, source.up_to(length.into()));
            }
            11 => self.repeat_changed(source.take()?),
            _ => self.flood(source.take()?),
        }
        Some(())
    }

    fn peer_acts(&mut self, action: u8, source: &mut Source<'_>) -> Option<()> {
        let [which, value] = source.take()?;
        match action {
            20 => self.connect_client(which, value),
            21 => self.datagram_arrives(which, value),
            22 => self.datagram_arrives_at_port(which, value),
            23 => {
                // The token may belong to a flow that has ended.
                let token = Token::from(u64::from(which % 16) | u64::from(value >> 6) << 32);
                let event = Event::Stream(token, Readiness::from_bits_truncate(value));
                self.network.handle_event(&mut self.host, event);
            }
            other => self.change_socket(other, which, value),
        }
        Some(())
    }

    /// Changes a socket. Its event is reported now or later.
    fn change_socket(&mut self, action: u8, which: u8, value: u8) {
        let at = usize::from(which) % self.host.streams.len().max(1);
        let Some(socket) = self.host.streams.get(at).cloned() else { return };
        let count = COUNTS[usize::from(value % 8)];
        match action {
            13 | 14 => socket.borrow_mut().arrive(count),
            15 => socket.borrow_mut().hang_up(),
            16 | 17 => {
                let count = if value & 8 == 0 { count } else { usize::MAX };
                socket.borrow_mut().make_room(count);
            }
            18 => socket.borrow_mut().fail(KINDS[usize::from(value % 4)]),
            _ => {}
        }
        let is_later = action != 19 && value & 0x40 != 0;
        // Dropped first, because the host counts references to find closed sockets.
        drop(socket);
        if !is_later {
            self.report(at);
        }
    }

    /// A client connects to a listener.
    fn connect_client(&mut self, which: u8, value: u8) {
        let listener = usize::from(which) % TCP_PORTS.len();
        let address = CLIENTS[usize::from(which >> 1) % CLIENTS.len()].parse().expect("an address");
        self.host.clients[listener].push_back(SocketAddr::new(address, 1_000 + u16::from(value)));
        self.network.handle_event(&mut self.host, Event::Listener(listener));
    }

    /// A datagram arrives at a socket, or an error.
    fn datagram_arrives(&mut self, which: u8, value: u8) {
        let Some(socket) = self.host.datagrams.get(usize::from(which) % self.host.datagrams.len().max(1))
        else {
            return;
        };
        let result = match value {
            0x80.. => Err(KINDS[usize::from(value % 4)]),
            _ => Ok(COUNTS[usize::from(value % 7)]),
        };
        socket.borrow_mut().arrive(result);
        let token = Token::from(socket.borrow().token);
        if value & 0x40 == 0 {
            self.network.handle_event(&mut self.host, Event::Datagrams(token));
        }
    }

    /// A datagram arrives at a forwarded port.
    fn datagram_arrives_at_port(&mut self, which: u8, value: u8) {
        let port = usize::from(which) % UDP_PORTS.len();
        let address = CLIENTS[usize::from(which >> 1) % CLIENTS.len()].parse().expect("an address");
        let from = SocketAddr::new(address, u16::from(value >> 3));
        self.host.port_received[port].push_back((from, COUNTS[usize::from(value % 7)]));
        self.network.handle_event(&mut self.host, Event::Port(port));
    }

    fn host_acts(&mut self, action: u8, source: &mut Source<'_>) -> Option<()> {
        let [value] = source.take()?;
        match action {
            28 => {
                let errno = ERRORS[usize::from(value & 15) % ERRORS.len()];
                self.host.failure.set(Failure { calls: 1 + (value >> 4), errno });
            }
            29 => self.host.max_sockets = if value == 0 { usize::MAX } else { (value % 16).into() },
            30 => self.host.max_bytes = if value == 0 { usize::MAX } else { value.into() },
            _ => self.change_limits(value),
        }
        Some(())
    }

    fn change_limits(&mut self, value: u8) {
        self.host.is_closed_to_guest = value & 8 != 0;
        let is_large = value & 1 != 0;
        let max_frame = if is_large { MAX_LARGE_FRAME } else { 14 + self.rules.mtu };
        let limits = Limits { max_frame, has_large_segments: (is_large, is_large && value & 2 != 0) };
        // Receives the queued frames first, because they were made with the previous limits.
        while self.receive_one(false) {}
        self.network.set_limits(limits);
        self.rules.limits = limits;
    }
}
