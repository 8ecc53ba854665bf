//! A socket of the network stack, and its calls. Some of them block.

use core::task::Context;

use hermit_hal::clock;
use hermit_interface::Errno;
use hermit_interface::net::{Endpoint, OptionName, SocketOption, receive};
use hermit_io::{CommonSettings, Direction, MessageFlags, ReadBuffer, Readiness};

use crate::net::stack::{Network, Stack};
use crate::net::waiting::{poll_and, wait_until};
use crate::net::waker_keys::WakerKey;
use crate::net::{act, configured, drive, network};
use crate::sync::WaitQueue;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// A socket of the stack. Dropping it closes the socket.
#[derive(Debug)]
pub(super) struct StackSocket {
    network: &'static Network,
    number: u64,
    waker_key: WakerKey,
    settings: CommonSettings,
}

impl StackSocket {
    /// Creates a socket of an IP version and a type.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, or the error of the stack.
    pub(super) fn new(version: u16, stack_type: u32, settings: CommonSettings) -> Result<Self, Errno> {
        let network = network()?;
        let waker_key = WakerKey::new()?;
        let number = network.with(|stack| stack.socket(version.into(), stack_type, waker_key.number()))?;
        Ok(Self { network, number, waker_key, settings })
    }

    /// Settings that sockets of all families have.
    pub(super) const fn settings(&self) -> &CommonSettings {
        &self.settings
    }

    /// Waiters that are all woken.
    pub(super) fn waiters(&self) -> &WaitQueue {
        self.waker_key.waiters()
    }

    /// Exclusive waiters: each event wakes one of them.
    pub(super) fn exclusive_waiters(&self) -> &WaitQueue {
        self.waker_key.exclusive_waiters()
    }

    /// Waits for the machine's address, unless it is not needed to reach the peer.
    pub(super) fn wait_for_route(&self, peer: &Endpoint) {
        configured::wait(self.network, peer);
    }

    /// Returns true if a call with these flags may block.
    pub(super) fn blocks(&self, flags: MessageFlags) -> bool {
        !flags.dont_wait && !self.settings.is_nonblocking()
    }

    /// Calls the stack with the socket's number. Blocks while the call fails with `EAGAIN`, unless the socket
    /// or the call is non-blocking.
    pub(super) fn wait<R>(
        &self,
        direction: Direction,
        flags: MessageFlags,
        mut action: impl FnMut(&mut Stack, u64) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        self.wait_among(self.waiters(), (direction, flags), |stack| action(stack, self.number))
    }

    /// Calls the stack as [`wait`](Self::wait) does, with a wait queue.
    fn wait_among<R>(
        &self,
        waiters: &WaitQueue,
        (direction, flags): (Direction, MessageFlags),
        action: impl FnMut(&mut Stack) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        if !self.blocks(flags) {
            return drive(self.network, action);
        }
        wait_until(self.network, waiters, self.settings.deadline(direction, clock::monotonic), action)
    }

    /// Binds the socket to a local address.
    pub(super) fn bind(&self, address: &Endpoint) -> Result<(), Errno> {
        act(self.network, |stack| stack.bind(self.number, address))
    }

    /// Makes the socket a listener.
    pub(super) fn listen(&self, backlog: i32) -> Result<(), Errno> {
        act(self.network, |stack| stack.listen(self.number, backlog))
    }

    /// Accepts a connection. Returns its socket and the peer's address.
    pub(super) fn accept(&self) -> Result<(Self, Endpoint), Errno> {
        let waker_key = WakerKey::new()?;
        let how = (Direction::Receive, MessageFlags::default());
        let (number, from) = self.wait_among(self.exclusive_waiters(), how, |stack| {
            stack.accept(self.number, waker_key.number())
        })?;
        let settings = self.settings.inherited();
        Ok((Self { network: self.network, number, waker_key, settings }, from))
    }

    /// Connects the socket. Does not wait for the end of a handshake.
    pub(super) fn connect(&self, peer: &Endpoint) -> Result<(), Errno> {
        self.wait_for_route(peer);
        act(self.network, |stack| stack.connect(self.number, peer))
    }

    /// Receives or peeks bytes. For a datagram, also stores the sender's address.
    pub(super) fn receive(
        &self,
        waiters: &WaitQueue,
        buffer: &mut ReadBuffer<'_>,
        flags: MessageFlags,
        mut from: Option<&mut Endpoint>,
    ) -> Result<(), Errno> {
        let peek = if flags.peek { receive::PEEK } else { 0 };
        self.wait_among(waiters, (Direction::Receive, flags), |stack| {
            let from = from.as_deref_mut();
            buffer.append_with(|room| stack.receive(self.number, room, peek, from)).map(drop)
        })
    }

    /// Receives bytes of a stream until the buffer is full or the stream ends. After the first part was
    /// received, an error or a timeout ends the call without making it fail. The next call reports the error.
    pub(super) fn receive_all(&self, buffer: &mut ReadBuffer<'_>, flags: MessageFlags) -> Result<(), Errno> {
        let result = self.wait(Direction::Receive, flags, |stack, number| {
            if !buffer.is_empty() && Readiness::from_bits(stack.readiness(number)).error {
                return Err(Errno::EPIPE);
            }
            let count = buffer.append_with(|room| stack.receive(number, room, 0, None))?;
            if count > 0 && buffer.room() > 0 { Err(Errno::EAGAIN) } else { Ok(()) }
        });
        if buffer.is_empty() { result } else { Ok(()) }
    }

    /// Shuts down one or both directions.
    pub(super) fn shutdown(&self, how: i32) -> Result<(), Errno> {
        act(self.network, |stack| {
            let result = stack.shutdown(self.number, how);
            // All exclusive waiters must be woken: every blocked `accept` fails now, and every blocked
            // receive of a datagram returns.
            self.exclusive_waiters().wake();
            result
        })
    }

    /// Local address of the socket.
    pub(super) fn local(&self) -> Result<Endpoint, Errno> {
        self.network.with(|stack| stack.local(self.number))
    }

    /// Address of the socket's peer.
    pub(super) fn remote(&self) -> Result<Endpoint, Errno> {
        self.network.with(|stack| stack.remote(self.number))
    }

    /// Sets an option.
    pub(super) fn set_option(&self, option: &SocketOption) -> Result<(), Errno> {
        act(self.network, |stack| stack.set_option(self.number, option))
    }

    /// The value of an option.
    pub(super) fn option(&self, name: OptionName) -> Result<u32, Errno> {
        act(self.network, |stack| stack.option(self.number, name))
    }

    /// Returns the readiness of the socket. Registers the waker for changes.
    pub(super) fn poll_ready(&self, context: &Context<'_>) -> Readiness {
        let waiters = self.waiters();
        let ready = poll_and(self.network, waiters, context, |stack| {
            waiters.add(context);
            stack.readiness(self.number)
        });
        Readiness::from_bits(ready)
    }

    /// Returns the readiness of the socket. From now on, changes of the socket wake the waker.
    pub(super) fn watch(&self, context: &Context<'_>) -> Readiness {
        // Frames that are received after this wake the waker when a thread polls the stack.
        let ready = self.network.with(|stack| {
            self.waiters().add(context);
            stack.readiness(self.number)
        });
        Readiness::from_bits(ready)
    }

    /// Does [`Self::watch`] for an exclusive entry of epoll. The entry waits in the queue of exclusive
    /// waiters, so each event wakes only one of them.
    pub(super) fn watch_exclusive(&self, context: &Context<'_>) -> Readiness {
        let ready = self.network.with(|stack| {
            self.exclusive_waiters().add(context);
            stack.readiness(self.number)
        });
        Readiness::from_bits(ready)
    }

    /// Removes the waker that [`Self::watch`] or [`Self::watch_exclusive`] has registered.
    pub(super) fn unwatch(&self, context: &Context<'_>) {
        self.waiters().remove(context);
        self.exclusive_waiters().remove(context);
    }

    /// Waits until sent data is acknowledged, if `SO_LINGER` is on.
    fn deliver(&self) {
        let seconds = self.settings.linger().and_then(|seconds| u64::try_from(seconds).ok());
        let Some(seconds) = seconds.filter(|&seconds| seconds > 0) else { return };
        let deadline = clock::monotonic().saturating_add(seconds.saturating_mul(NANOSECONDS_PER_SECOND));
        // If the linger time expires, the stack continues the delivery in the background.
        let _: Result<(), Errno> =
            wait_until(self.network, self.waiters(), Some(deadline), |stack| stack.finish(self.number));
    }
}

impl Drop for StackSocket {
    fn drop(&mut self) {
        self.deliver();
        let at_once = self.settings.linger() == Some(0);
        act(self.network, |stack| stack.close(self.number, at_once));
    }
}
