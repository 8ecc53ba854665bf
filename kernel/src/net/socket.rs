//! A socket behind a descriptor.

use alloc::sync::Arc;
use core::fmt::Debug;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64};
use core::task::{Context, Poll};

use hermit_hal::clock;
use hermit_interface::Errno;
use hermit_interface::net::{Endpoint, OptionName, SocketOption, receive};
use hermit_io::{Object, ReadBuffer, Readiness, Stat, WaitQueue as _};

use super::stack::{Network, Stack};
use super::waiting::{poll_and, wait_until};
use super::waker_keys::WakerKey;
use super::{act, configured, drive, network};
use crate::fallible;
use crate::sync::WaitQueue;

/// A socket (`st_mode`).
const SOCKET: u32 = 0o14_0777;

/// Bytes per read or write that suit a socket.
const BLOCK_SIZE: u32 = 4096;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// `SO_LINGER` is off: close returns at once, and sent data is still delivered.
const NO_LINGER: i32 = -1;

/// Type of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// TCP (`SOCK_STREAM`).
    Stream,
    /// UDP (`SOCK_DGRAM`).
    Datagram,
}

/// A direction in which calls block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Receiving and accepting.
    Receive,
    /// Sending and connecting.
    Send,
}

/// A socket, until its last descriptor is closed.
#[derive(Debug)]
pub(crate) struct Socket {
    network: &'static Network,
    number: u64,
    waker_key: WakerKey,
    family: u16,
    kind: Kind,
    nonblocking: AtomicBool,
    /// Receive timeout (`SO_RCVTIMEO`) in nanoseconds, or 0 for none; the next field is `SO_SNDTIMEO`.
    receive_limit: AtomicU64,
    send_limit: AtomicU64,
    /// Linger time in seconds, or [`NO_LINGER`].
    linger: AtomicI32,
}

impl Socket {
    /// Creates a socket.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the error of the stack.
    pub(crate) fn new(family: u16, kind: Kind, nonblocking: bool) -> Result<Arc<Self>, Errno> {
        let network = network()?;
        let waker_key = WakerKey::new()?;
        let number = network.with(|stack| stack.socket(family.into(), kind.number(), waker_key.number()))?;
        let socket = Self::of(network, number, waker_key, family, kind);
        socket.nonblocking.store(nonblocking, Relaxed);
        socket.shared()
    }

    const fn of(
        network: &'static Network,
        number: u64,
        waker_key: WakerKey,
        family: u16,
        kind: Kind,
    ) -> Self {
        Self {
            network,
            number,
            waker_key,
            family,
            kind,
            nonblocking: AtomicBool::new(false),
            receive_limit: AtomicU64::new(0),
            send_limit: AtomicU64::new(0),
            linger: AtomicI32::new(NO_LINGER),
        }
    }

    /// Moves the socket to the heap; without memory it is closed.
    fn shared(self) -> Result<Arc<Self>, Errno> {
        fallible::arc(self).ok_or(Errno::ENOMEM)
    }

    /// [`hermit_interface::net::V4`] or [`hermit_interface::net::V6`].
    pub(crate) const fn family(&self) -> u16 {
        self.family
    }

    /// Type of the socket.
    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    fn limit(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Receive => &self.receive_limit,
            Direction::Send => &self.send_limit,
        }
    }

    /// Timeout of calls in this direction in nanoseconds; 0 for none.
    pub(crate) fn time_limit(&self, direction: Direction) -> u64 {
        self.limit(direction).load(Relaxed)
    }

    /// Sets the timeout of calls in this direction in nanoseconds; 0 for none.
    pub(crate) fn set_time_limit(&self, direction: Direction, nanoseconds: u64) {
        self.limit(direction).store(nanoseconds, Relaxed);
    }

    /// Linger time in seconds, if `SO_LINGER` is on.
    pub(crate) fn linger(&self) -> Option<i32> {
        Some(self.linger.load(Relaxed)).filter(|&seconds| seconds != NO_LINGER)
    }

    /// Sets the linger time in seconds; close waits so long for delivery or, with 0, resets the connection.
    pub(crate) fn set_linger(&self, seconds: Option<i32>) {
        self.linger.store(seconds.unwrap_or(NO_LINGER), Relaxed);
    }

    /// Calls the stack; blocks while the call fails with `EAGAIN`, unless the socket is non-blocking.
    fn wait<R>(
        &self,
        direction: Direction,
        action: impl FnMut(&mut Stack) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.wait_among(self.waker_key.waiters(), direction, action)
    }

    /// Calls the stack as [`wait`](Self::wait) does, with a wait queue.
    fn wait_among<R>(
        &self,
        waiters: &WaitQueue,
        direction: Direction,
        action: impl FnMut(&mut Stack) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        if self.nonblocking.load(Relaxed) {
            return drive(self.network, action);
        }
        let limit = self.time_limit(direction);
        let deadline = (limit != 0).then(|| clock::monotonic().saturating_add(limit));
        wait_until(self.network, waiters, deadline, action)
    }

    /// Binds the socket to a local address.
    pub(crate) fn bind(&self, address: &Endpoint) -> Result<(), Errno> {
        act(self.network, |stack| stack.bind(self.number, address))
    }

    /// Makes the socket a listener.
    pub(crate) fn listen(&self, backlog: i32) -> Result<(), Errno> {
        act(self.network, |stack| stack.listen(self.number, backlog))
    }

    /// Accepts a connection; returns its socket and the peer's address.
    pub(crate) fn accept(&self) -> Result<(Arc<Self>, Endpoint), Errno> {
        let waker_key = WakerKey::new()?;
        let (waiters, direction) = (self.waker_key.exclusive_waiters(), Direction::Receive);
        let (number, from) =
            self.wait_among(waiters, direction, |stack| stack.accept(self.number, waker_key.number()))?;
        let socket = Self::of(self.network, number, waker_key, self.family, self.kind);
        // As on Linux, inherited from the listener.
        socket.receive_limit.store(self.receive_limit.load(Relaxed), Relaxed);
        socket.send_limit.store(self.send_limit.load(Relaxed), Relaxed);
        socket.linger.store(self.linger.load(Relaxed), Relaxed);
        Ok((socket.shared()?, from))
    }

    /// Connects the socket; blocks until the handshake ends, unless the socket is non-blocking.
    pub(crate) fn connect(&self, address: &Endpoint) -> Result<(), Errno> {
        configured::wait(self.network, address);
        if self.nonblocking.load(Relaxed) {
            return act(self.network, |stack| stack.connect(self.number, address));
        }
        let begun = match act(self.network, |stack| stack.connect(self.number, address)) {
            // Started now, or by another thread or an earlier call that timed out.
            Err(error @ (Errno::EINPROGRESS | Errno::EALREADY)) => error,
            result => return result,
        };
        // Calling `connect` again returns the result.
        let waited = self.wait(Direction::Send, |stack| match stack.connect(self.number, address) {
            Err(Errno::EINPROGRESS | Errno::EALREADY) => Err(Errno::EAGAIN),
            // `connect` has reported the success to another thread.
            Err(Errno::EISCONN) => Ok(()),
            result => result,
        });
        waited.map_err(|error| if error == Errno::EAGAIN { begun } else { error })
    }

    /// Sends bytes; returns their number. A blocking stream sends all of them.
    pub(crate) fn send(&self, bytes: &[u8], to: Option<&Endpoint>) -> Result<usize, Errno> {
        if let Some(to) = to {
            configured::wait(self.network, to);
        }
        let waits = self.kind == Kind::Stream && !self.nonblocking.load(Relaxed);
        let mut sent = 0;
        let result = self.wait(Direction::Send, |stack| {
            let rest = bytes.get(sent..).unwrap_or_default();
            sent += self.send_part(stack, rest, to, sent == 0)?;
            // The timeout covers all parts together.
            if waits && sent < bytes.len() { Err(Errno::EAGAIN) } else { Ok(()) }
        });
        match result {
            Err(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    }

    /// Sends what fits into the send buffer. After the first part, a pending error is left for the next call.
    fn send_part(
        &self,
        stack: &mut Stack,
        rest: &[u8],
        to: Option<&Endpoint>,
        is_first: bool,
    ) -> Result<usize, Errno> {
        if !is_first && Readiness::from_bits(stack.readiness(self.number)).error {
            return Err(Errno::EPIPE);
        }
        stack.send(self.number, rest, to)
    }

    /// Receives or peeks bytes; returns the sender of a datagram.
    pub(crate) fn receive(&self, buffer: &mut ReadBuffer<'_>, peek: bool) -> Result<Endpoint, Errno> {
        let flags = if peek { receive::PEEK } else { 0 };
        // A datagram is for one thread, as on Linux; one that is peeked stays for the others.
        let is_consumer = self.kind == Kind::Datagram && !peek;
        let waiters = if is_consumer { self.waker_key.exclusive_waiters() } else { self.waker_key.waiters() };
        self.wait_among(waiters, Direction::Receive, |stack| {
            let mut from = Endpoint::default();
            buffer.append_with(|room| {
                let (received, sender) = stack.receive(self.number, room, flags)?;
                from = sender;
                Ok(received)
            })?;
            Ok(from)
        })
    }

    /// Shuts down one or both directions.
    pub(crate) fn shutdown(&self, how: i32) -> Result<(), Errno> {
        act(self.network, |stack| {
            let result = stack.shutdown(self.number, how);
            // All blocked calls of `accept` fail, or those that receive datagrams return.
            self.waker_key.exclusive_waiters().wake();
            result
        })
    }

    /// Local address of the socket.
    pub(crate) fn local(&self) -> Result<Endpoint, Errno> {
        self.network.with(|stack| stack.local(self.number))
    }

    /// Address of the socket's peer.
    pub(crate) fn remote(&self) -> Result<Endpoint, Errno> {
        self.network.with(|stack| stack.remote(self.number))
    }

    /// Sets an option.
    pub(crate) fn set_option(&self, option: &SocketOption) -> Result<(), Errno> {
        act(self.network, |stack| stack.set_option(self.number, option))
    }

    /// The value of an option.
    pub(crate) fn option(&self, name: OptionName) -> Result<u32, Errno> {
        act(self.network, |stack| stack.option(self.number, name))
    }
}

impl Kind {
    const fn number(self) -> u32 {
        match self {
            Self::Stream => hermit_interface::net::STREAM,
            Self::Datagram => hermit_interface::net::DATAGRAM,
        }
    }
}

impl Socket {
    /// Waits until sent data is acknowledged, if `SO_LINGER` is on.
    fn deliver(&self) {
        let seconds = self.linger().and_then(|seconds| u64::try_from(seconds).ok());
        let Some(seconds) = seconds.filter(|&seconds| seconds > 0) else { return };
        let deadline = clock::monotonic().saturating_add(seconds.saturating_mul(NANOSECONDS_PER_SECOND));
        // After the linger time the stack continues the delivery.
        let (waiters, deadline) = (self.waker_key.waiters(), Some(deadline));
        let _: Result<(), Errno> =
            wait_until(self.network, waiters, deadline, |stack| stack.finish(self.number));
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.deliver();
        let at_once = self.linger() == Some(0);
        act(self.network, |stack| stack.close(self.number, at_once));
    }
}

impl Object for Socket {
    fn poll_read(&self, _context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        // As in Linux, `read` of 0 bytes does not block, while `recv` does.
        if buffer.room() == 0 {
            return Poll::Ready(Ok(()));
        }
        Poll::Ready(self.receive(buffer, false).map(drop))
    }

    fn poll_write(&self, _context: &mut Context<'_>, bytes: &[u8]) -> Poll<Result<usize, Errno>> {
        Poll::Ready(self.send(bytes, None))
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(Stat { mode: SOCKET, size: 0, block_size: BLOCK_SIZE })
    }

    fn poll_ready(&self, context: &mut Context<'_>) -> Readiness {
        let waiters = self.waker_key.waiters();
        let ready = poll_and(self.network, waiters, context, |stack| {
            waiters.add(context);
            stack.readiness(self.number)
        });
        Readiness::from_bits(ready)
    }

    fn is_watchable(&self) -> bool {
        true
    }

    fn watch(&self, context: &mut Context<'_>) -> Readiness {
        // Frames that are received meanwhile wake the waker when the stack is polled.
        let waiters = self.waker_key.waiters();
        let ready = self.network.with(|stack| {
            waiters.add(context);
            stack.readiness(self.number)
        });
        Readiness::from_bits(ready)
    }

    fn unwatch(&self, context: &Context<'_>) {
        self.waker_key.waiters().remove(context);
    }

    fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Relaxed)
    }

    fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Errno> {
        self.nonblocking.store(nonblocking, Relaxed);
        Ok(())
    }
}
