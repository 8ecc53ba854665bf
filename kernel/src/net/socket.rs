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

use super::cookies::Cookie;
use super::stack::{Network, Stack};
use super::waiting::{look, wait_until};
use super::{act, configured, drive, network};
use crate::fallible;
use crate::sync::WaitQueue;

/// A socket (`st_mode`).
const SOCKET: u32 = 0o14_0777;

/// Bytes per read or write that suit a socket.
const BLOCK_SIZE: u32 = 4096;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// No time on lingering: close returns at once, and the other side gets what was sent.
const NO_LINGER: i32 = -1;

/// What a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Connections.
    Stream,
    /// Datagrams.
    Datagram,
}

/// A direction in which a socket may have to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// Until something arrives.
    Receive,
    /// Until there is room.
    Send,
}

/// A socket, until its last descriptor is closed.
#[derive(Debug)]
pub(crate) struct Socket {
    network: &'static Network,
    number: u64,
    cookie: Cookie,
    family: u16,
    kind: Kind,
    nonblocking: AtomicBool,
    /// Nanoseconds that a call waits at most, or 0 for ever.
    receive_limit: AtomicU64,
    send_limit: AtomicU64,
    /// Seconds, or [`NO_LINGER`].
    linger: AtomicI32,
}

impl Socket {
    /// A new one.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or what the stack says.
    pub(crate) fn new(family: u16, kind: Kind, nonblocking: bool) -> Result<Arc<Self>, Errno> {
        let network = network()?;
        let cookie = Cookie::new()?;
        let number = network.with(|stack| stack.socket(family.into(), kind.number(), cookie.number()))?;
        let socket = Self::of(network, number, cookie, family, kind);
        socket.nonblocking.store(nonblocking, Relaxed);
        socket.shared()
    }

    const fn of(network: &'static Network, number: u64, cookie: Cookie, family: u16, kind: Kind) -> Self {
        Self {
            network,
            number,
            cookie,
            family,
            kind,
            nonblocking: AtomicBool::new(false),
            receive_limit: AtomicU64::new(0),
            send_limit: AtomicU64::new(0),
            linger: AtomicI32::new(NO_LINGER),
        }
    }

    /// Without memory the socket is closed.
    fn shared(self) -> Result<Arc<Self>, Errno> {
        fallible::arc(self).ok_or(Errno::ENOMEM)
    }

    /// [`hermit_interface::net::V4`] or [`hermit_interface::net::V6`].
    pub(crate) const fn family(&self) -> u16 {
        self.family
    }

    /// What it carries.
    pub(crate) const fn kind(&self) -> Kind {
        self.kind
    }

    fn limit(&self, direction: Direction) -> &AtomicU64 {
        match direction {
            Direction::Receive => &self.receive_limit,
            Direction::Send => &self.send_limit,
        }
    }

    /// How long a call in this direction waits at most, in nanoseconds; 0 for ever.
    pub(crate) fn time_limit(&self, direction: Direction) -> u64 {
        self.limit(direction).load(Relaxed)
    }

    /// Has calls in this direction wait so many nanoseconds at most; 0 for ever.
    pub(crate) fn set_time_limit(&self, direction: Direction, nanoseconds: u64) {
        self.limit(direction).store(nanoseconds, Relaxed);
    }

    /// How many seconds closing waits, if it does.
    pub(crate) fn linger(&self) -> Option<i32> {
        Some(self.linger.load(Relaxed)).filter(|&seconds| seconds != NO_LINGER)
    }

    /// Has closing wait so many seconds, or, with 0, drop what has not been delivered.
    pub(crate) fn set_linger(&self, seconds: Option<i32>) {
        self.linger.store(seconds.unwrap_or(NO_LINGER), Relaxed);
    }

    /// Does something with the socket as soon as it can be done: not now if the stack says `EAGAIN`.
    fn wait<R>(
        &self,
        direction: Direction,
        action: impl FnMut(&mut Stack) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.wait_among(self.cookie.waiters(), direction, action)
    }

    /// The same, for one of certain waiters.
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

    /// Gives it a local address.
    pub(crate) fn bind(&self, address: &Endpoint) -> Result<(), Errno> {
        act(self.network, |stack| stack.bind(self.number, address))
    }

    /// Has it take connections.
    pub(crate) fn listen(&self, backlog: i32) -> Result<(), Errno> {
        act(self.network, |stack| stack.listen(self.number, backlog))
    }

    /// Waits for a connection.
    pub(crate) fn accept(&self) -> Result<(Arc<Self>, Endpoint), Errno> {
        let cookie = Cookie::new()?;
        let (waiters, direction) = (self.cookie.takers(), Direction::Receive);
        let (number, from) =
            self.wait_among(waiters, direction, |stack| stack.accept(self.number, cookie.number()))?;
        let socket = Self::of(self.network, number, cookie, self.family, self.kind);
        // As on Linux, these are the listener's.
        socket.receive_limit.store(self.receive_limit.load(Relaxed), Relaxed);
        socket.send_limit.store(self.send_limit.load(Relaxed), Relaxed);
        socket.linger.store(self.linger.load(Relaxed), Relaxed);
        Ok((socket.shared()?, from))
    }

    /// Connects it, and waits until it is, unless it must not wait.
    pub(crate) fn connect(&self, address: &Endpoint) -> Result<(), Errno> {
        configured::wait(self.network, address);
        if self.nonblocking.load(Relaxed) {
            return act(self.network, |stack| stack.connect(self.number, address));
        }
        let begun = match act(self.network, |stack| stack.connect(self.number, address)) {
            // Somebody else began, or this thread did before its time was up.
            Err(error @ (Errno::EINPROGRESS | Errno::EALREADY)) => error,
            result => return result,
        };
        // Connecting again asks how it went.
        let waited = self.wait(Direction::Send, |stack| match stack.connect(self.number, address) {
            Err(Errno::EINPROGRESS | Errno::EALREADY) => Err(Errno::EAGAIN),
            // Another thread was told.
            Err(Errno::EISCONN) => Ok(()),
            result => result,
        });
        waited.map_err(|error| if error == Errno::EAGAIN { begun } else { error })
    }

    /// Sends bytes: all of them over a connection, unless it must not wait; how many.
    pub(crate) fn send(&self, bytes: &[u8], to: Option<&Endpoint>) -> Result<usize, Errno> {
        if let Some(to) = to {
            configured::wait(self.network, to);
        }
        let waits = self.kind == Kind::Stream && !self.nonblocking.load(Relaxed);
        let mut sent = 0;
        let result = self.wait(Direction::Send, |stack| {
            let rest = bytes.get(sent..).unwrap_or_default();
            sent += self.send_part(stack, rest, to, sent == 0)?;
            // The time limit is one of all parts together.
            if waits && sent < bytes.len() { Err(Errno::EAGAIN) } else { Ok(()) }
        });
        match result {
            Err(error) if sent == 0 => Err(error),
            _ => Ok(sent),
        }
    }

    /// Sends what there is room for. Once something was sent, an error is the next call's.
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

    /// Receives bytes, or looks at what would be received; from where a datagram came.
    pub(crate) fn receive(&self, buffer: &mut ReadBuffer<'_>, peek: bool) -> Result<Endpoint, Errno> {
        let flags = if peek { receive::PEEK } else { 0 };
        self.wait(Direction::Receive, |stack| {
            let mut from = Endpoint::default();
            buffer.append_with(|room| {
                let (received, sender) = stack.receive(self.number, room, flags)?;
                from = sender;
                Ok(received)
            })?;
            Ok(from)
        })
    }

    /// Closes directions.
    pub(crate) fn shutdown(&self, how: i32) -> Result<(), Errno> {
        act(self.network, |stack| {
            let result = stack.shutdown(self.number, how);
            // There is nothing to take any more, which each of them is to learn.
            self.cookie.takers().wake();
            result
        })
    }

    /// Its own address.
    pub(crate) fn local(&self) -> Result<Endpoint, Errno> {
        self.network.with(|stack| stack.local(self.number))
    }

    /// Its peer's address.
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
    /// Waits until what was sent has been delivered, if that is wanted.
    fn deliver(&self) {
        let seconds = self.linger().and_then(|seconds| u64::try_from(seconds).ok());
        let Some(seconds) = seconds.filter(|&seconds| seconds > 0) else { return };
        let deadline = clock::monotonic().saturating_add(seconds.saturating_mul(NANOSECONDS_PER_SECOND));
        // What takes longer is delivered without anybody who waits.
        let (waiters, deadline) = (self.cookie.waiters(), Some(deadline));
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
        // Who reads nothing waits for nothing, as in Linux's read; its recv does wait.
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
        let waiters = self.cookie.waiters();
        let ready = look(self.network, waiters, context, |stack| {
            waiters.add(context);
            stack.readiness(self.number)
        });
        Readiness::from_bits(ready)
    }

    fn is_watchable(&self) -> bool {
        true
    }

    fn watch(&self, context: &mut Context<'_>) -> Readiness {
        // What arrives meanwhile wakes the waker when the stack is polled.
        let waiters = self.cookie.waiters();
        let ready = self.network.with(|stack| {
            waiters.add(context);
            stack.readiness(self.number)
        });
        Readiness::from_bits(ready)
    }

    fn unwatch(&self, context: &Context<'_>) {
        self.cookie.waiters().remove(context);
    }

    fn is_nonblocking(&self) -> bool {
        self.nonblocking.load(Relaxed)
    }

    fn set_nonblocking(&self, nonblocking: bool) -> Result<(), Errno> {
        self.nonblocking.store(nonblocking, Relaxed);
        Ok(())
    }
}
