//! Sockets of the host, for the user-mode network.
//!
//! [`Sockets`] implements [`Host`] for the user-mode network: it makes the system calls, and reports events
//! of sockets. All sockets are registered with one epoll instance. The epoll descriptor is itself readable
//! while an event is pending, so the network's thread waits for this descriptor only. The epoll instance also
//! watches a timer for the next deadline of the network, and an eventfd that is readable while frames for the
//! guest are queued.
//!
//! Sockets are registered as edge-triggered: a socket that has become ready is reported once, and not again
//! until a call has returned `EAGAIN`. The data of an event has the kind of its source in the upper two bits,
//! and the number of the flow, listener or port in the rest.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use hermit_options::egress::EgressPolicy;
use hermit_usernet::config::DNS_PORT;
use hermit_usernet::host::{Datagram, Host, Protocol, Token};
use hermit_usernet::{Event, Readiness};
use rustix::event::EventfdFlags;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::{
    self, AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, ipproto, sockopt,
};
use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use smallvec::SmallVec;
use vm_memory::VolatileSlice;

use super::frames;
use super::stream::{self, Stream, keeps_peek_offset};
use crate::devices::net::backend::iovec;
use crate::devices::net::egress::filter::is_worth_a_warning;

/// Maximum number of events of one epoll_wait(2).
const MAX_EVENTS: usize = 64;

/// Maximum size in bytes of a datagram.
const MAX_DATAGRAM: usize = 65_535;

/// Kind of an event's source, in the upper two bits of the event's data.
const KIND_SHIFT: u32 = 62;
const STREAM: u64 = 0;
const DATAGRAMS: u64 = 1;
const LISTENER: u64 = 2;
const PORT: u64 = 3;

/// Event data of the timer, and of the eventfd for queued frames. Listeners have smaller numbers.
const TIMER: u64 = LISTENER << KIND_SHIFT | 0xffff_ffff;
const OUTPUT: u64 = LISTENER << KIND_SHIFT | 0xffff_fffe;

/// Sockets, and the epoll descriptor that is readable when a socket has an event.
#[derive(Debug)]
pub(super) struct Sockets {
    epoll: OwnedFd,
    timer: OwnedFd,
    /// Eventfd that is readable while frames for the guest are queued, although no socket has an event.
    output: OwnedFd,
    is_output_announced: bool,
    /// Time for which the timer is set.
    timer_at: Option<u64>,
    start: Instant,
    listeners: Vec<TcpListener>,
    ports: Vec<UdpSocket>,
    policy: EgressPolicy,
    warned: Vec<IpAddr>,
    /// Buffer for datagrams of forwarded ports.
    datagram: Vec<u8>,
    /// True if the host's kernel keeps the peek offset of streams (`SO_PEEK_OFF`). Otherwise each peek also
    /// copies the bytes before the offset, to the buffer `unread`.
    keeps_offset: bool,
    unread: Vec<u8>,
}

impl Sockets {
    /// Registers these listeners and ports.
    ///
    /// # Errors
    ///
    /// The host has no more file descriptors.
    pub(super) fn new(
        listeners: Vec<TcpListener>,
        ports: Vec<UdpSocket>,
        policy: EgressPolicy,
    ) -> io::Result<Self> {
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        let sockets = Self {
            epoll: epoll::create(CreateFlags::CLOEXEC)?,
            timer,
            output: rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            is_output_announced: false,
            timer_at: None,
            start: Instant::now(),
            listeners,
            ports,
            policy,
            warned: Vec::new(),
            datagram: Vec::new(),
            keeps_offset: keeps_peek_offset(),
            unread: Vec::new(),
        };
        sockets.add(&sockets.timer, TIMER, EventFlags::IN)?;
        sockets.add(&sockets.output, OUTPUT, EventFlags::IN)?;
        for (number, listener) in (0..).zip(&sockets.listeners) {
            listener.set_nonblocking(true)?;
            stream::set_options(listener.as_fd(), sockets.keeps_offset)?;
            sockets.add(listener, LISTENER << KIND_SHIFT | number, EventFlags::IN | EventFlags::ET)?;
        }
        for (number, port) in (0..).zip(&sockets.ports) {
            port.set_nonblocking(true)?;
            sockets.add(port, PORT << KIND_SHIFT | number, EventFlags::IN | EventFlags::ET)?;
        }
        Ok(sockets)
    }

    fn add(&self, socket: impl AsFd, data: u64, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::add(&self.epoll, socket, EventData::new_u64(data), flags)?)
    }

    /// Returns the epoll descriptor, which is readable while events are pending.
    pub(super) fn events_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }

    /// Returns a descriptor that never has an event: the output of this backend never blocks.
    pub(super) fn output_fd(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Makes the epoll descriptor readable until [`Self::withdraw`], because frames for the guest are queued.
    pub(super) fn announce(&mut self) {
        if !self.is_output_announced {
            self.is_output_announced = rustix::io::write(&self.output, &1_u64.to_ne_bytes()).is_ok();
        }
    }

    /// Reverts [`Self::announce`].
    pub(super) fn withdraw(&mut self) {
        if self.is_output_announced {
            // Cannot fail: the counter is not zero.
            self.is_output_announced = rustix::io::read(&self.output, &mut [0; 8][..]).is_err();
        }
    }

    /// Returns the pending events, at most [`MAX_EVENTS`]. If no event is pending, waits for at most
    /// `timeout`.
    pub(super) fn events(&mut self, timeout: Duration) -> SmallVec<[Event; MAX_EVENTS]> {
        let mut events =
            [epoll::Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; MAX_EVENTS];
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        let count = epoll::wait(&self.epoll, &mut events[..], Some(&timeout)).unwrap_or(0);
        let events = events.iter().take(count);
        events.filter_map(|event| self.decode(event.data.u64(), event.flags)).collect()
    }

    fn decode(&mut self, data: u64, flags: EventFlags) -> Option<Event> {
        if data == TIMER {
            self.timer_at = None;
            self.set_timer(None);
            return None;
        }
        if data == OUTPUT {
            return None;
        }
        let number = hermit_interface::to_usize(data & 0xffff_ffff);
        Some(match data >> KIND_SHIFT {
            STREAM => Event::Stream(Token::from(data), readiness(flags)),
            DATAGRAMS => Event::Datagrams(Token::from(data & !(0b11 << KIND_SHIFT))),
            LISTENER => Event::Listener(number),
            _ => Event::Port(number),
        })
    }

    /// Makes the epoll descriptor readable at `deadline` at the latest.
    pub(super) fn wake_at(&mut self, deadline: Option<u64>) {
        let Some(deadline) = deadline else { return };
        if self.timer_at.is_none_or(|at| deadline < at) {
            self.timer_at = Some(deadline);
            // At least 1 ns: zero would stop the timer.
            self.set_timer(Some(deadline.saturating_sub(self.now()).max(1)));
        }
    }

    /// Sets the timer, or stops it. An error is ignored, because the network cannot handle it.
    fn set_timer(&self, interval: Option<u64>) {
        let duration = Duration::from_nanos(interval.unwrap_or(0));
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let Ok(it_value) = Timespec::try_from(duration) else { return };
        let value = Itimerspec { it_interval: zero, it_value };
        let _: Result<_, rustix::io::Errno> =
            rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &value);
    }

    fn warn(&mut self, address: IpAddr) {
        if is_worth_a_warning(&mut self.warned, address) {
            log::warn!(
                "network: the guest may not connect to {address}: --net user,allow={address} opens the address"
            );
        }
    }
}

fn readiness(flags: EventFlags) -> Readiness {
    let mut readiness = Readiness::empty();
    readiness.set(Readiness::READABLE, flags.contains(EventFlags::IN));
    readiness.set(Readiness::WRITABLE, flags.contains(EventFlags::OUT));
    readiness.set(Readiness::HANG_UP, flags.intersects(EventFlags::RDHUP | EventFlags::PRI));
    readiness.set(Readiness::FAILED, flags.intersects(EventFlags::HUP | EventFlags::ERR));
    readiness
}

fn family(address: SocketAddr) -> AddressFamily {
    if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }
}

/// Events of a TCP socket. Urgent data (`PRI`) is included, because a read stops in front of it.
const STREAM_EVENTS: EventFlags = EventFlags::IN
    .union(EventFlags::OUT)
    .union(EventFlags::RDHUP)
    .union(EventFlags::PRI)
    .union(EventFlags::ET);

/// Opens a socket that does not block.
pub(super) fn socket(
    address: SocketAddr,
    kind: SocketType,
    protocol: Option<net::Protocol>,
) -> rustix::io::Result<OwnedFd> {
    net::socket_with(family(address), kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, protocol)
}

impl Host for Sockets {
    type Stream = Stream;
    type Datagrams = OwnedFd;
    type Frame<'a> = &'a [VolatileSlice<'a>];
    type Space<'a> = &'a [VolatileSlice<'a>];

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn is_permitted(&mut self, _: Protocol, to: SocketAddr) -> bool {
        // The network asks for a loopback address only if the policy opens the host's loopback to the guest,
        // or for a query to the host's resolver. Both are permitted.
        let is_open = to.ip().is_loopback()
            || self.policy.is_open(to.ip())
            || to.port() == DNS_PORT && self.policy.is_nameserver(to.ip());
        if !is_open {
            self.warn(to.ip());
        }
        is_open
    }

    fn connect(&mut self, to: SocketAddr, token: Token) -> io::Result<Stream> {
        let stream = Stream::new(socket(to, SocketType::STREAM, None)?, self.keeps_offset)?;
        match net::connect(&stream, &to) {
            Ok(()) | Err(rustix::io::Errno::INPROGRESS) => {}
            Err(error) => return Err(error.into()),
        }
        self.add(&stream, STREAM << KIND_SHIFT | u64::from(token), STREAM_EVENTS)?;
        Ok(stream)
    }

    fn take_error(&mut self, stream: &Stream) -> Option<io::Error> {
        sockopt::socket_error(stream).ok()?.err().map(io::Error::from)
    }

    fn accept(&mut self, listener: usize, token: Token) -> io::Result<(Stream, SocketAddr)> {
        let listener = self.listeners.get(listener).ok_or(ErrorKind::WouldBlock)?;
        let (stream, from) = net::acceptfrom_with(listener, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC)?;
        let from = from.and_then(|from| SocketAddr::try_from(from).ok()).ok_or(ErrorKind::InvalidData)?;
        let stream = Stream::accepted(stream, self.keeps_offset);
        self.add(&stream, STREAM << KIND_SHIFT | u64::from(token), STREAM_EVENTS)?;
        Ok((stream, from))
    }

    fn send(&mut self, stream: &Stream, frame: &Self::Frame<'_>, part: Range<usize>) -> io::Result<usize> {
        iovec::write(stream.as_fd(), &[], &frames::part(frame, part))
    }

    fn send_bytes(&mut self, stream: &Stream, bytes: &[u8]) -> io::Result<usize> {
        Ok(net::send(stream, bytes, SendFlags::NOSIGNAL)?)
    }

    fn copy(&mut self, frame: &Self::Frame<'_>, part: Range<usize>, bytes: &mut Vec<u8>) {
        iovec::gather(&frames::part(frame, part), bytes);
    }

    fn peek(
        &mut self,
        stream: &Stream,
        space: &mut Self::Space<'_>,
        part: Range<usize>,
    ) -> io::Result<usize> {
        stream.peek(&mut self.unread, &frames::part(space, part))
    }

    fn rewind(&mut self, stream: &Stream) {
        stream.rewind();
    }

    fn discard(&mut self, stream: &Stream, count: usize) {
        stream.discard(count);
    }

    fn shutdown(&mut self, stream: &Stream) {
        let _: rustix::io::Result<()> = net::shutdown(stream, Shutdown::Write);
    }

    fn reset(&mut self, stream: Stream) {
        // With a linger time of zero, close(2) sends RST instead of FIN (socket(7)).
        let _: rustix::io::Result<()> = sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
    }

    fn open(&mut self, protocol: Protocol, to: SocketAddr, token: Token) -> io::Result<OwnedFd> {
        let number = match protocol {
            Protocol::Echo if to.is_ipv4() => Some(ipproto::ICMP),
            Protocol::Echo => Some(ipproto::ICMPV6),
            Protocol::Udp | Protocol::Tcp => None,
        };
        let socket = socket(to, SocketType::DGRAM, number)?;
        net::connect(&socket, &to)?;
        self.add(&socket, DATAGRAMS << KIND_SHIFT | u64::from(token), EventFlags::IN | EventFlags::ET)?;
        Ok(socket)
    }

    fn send_datagram(
        &mut self,
        socket: &OwnedFd,
        frame: &Self::Frame<'_>,
        part: Range<usize>,
    ) -> io::Result<()> {
        iovec::write(socket.as_fd(), &[], &frames::part(frame, part)).map(drop)
    }

    fn reply(
        &mut self,
        port: usize,
        to: SocketAddr,
        frame: &Self::Frame<'_>,
        part: Range<usize>,
    ) -> io::Result<()> {
        let mut bytes = Vec::new();
        self.copy(frame, part, &mut bytes);
        let socket = self.ports.get(port).ok_or(ErrorKind::NotConnected)?;
        net::sendto(socket, &bytes, SendFlags::NOSIGNAL, &to)?;
        Ok(())
    }

    fn receive(
        &mut self,
        socket: &OwnedFd,
        header: &mut [u8],
        space: &mut Self::Space<'_>,
        part: Range<usize>,
    ) -> io::Result<usize> {
        let start = header.len();
        let length = iovec::read(socket.as_fd(), header, &frames::part(space, part))?;
        Ok(length.saturating_sub(start))
    }

    fn receive_from(
        &mut self,
        port: usize,
        space: &mut Self::Space<'_>,
        part: Range<usize>,
    ) -> io::Result<Datagram> {
        self.datagram.resize(MAX_DATAGRAM, 0);
        let socket = self.ports.get(port).ok_or(ErrorKind::WouldBlock)?;
        let (length, _, from) = net::recvfrom(socket, &mut self.datagram[..], RecvFlags::empty())?;
        let from = from.and_then(|from| SocketAddr::try_from(from).ok()).ok_or(ErrorKind::InvalidData)?;
        let bytes = self.datagram.get(..length).unwrap_or_default();
        iovec::scatter(bytes, &frames::part(space, part));
        Ok(Datagram { length, from })
    }
}
