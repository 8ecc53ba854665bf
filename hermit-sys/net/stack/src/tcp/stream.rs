//! What programs do with streams.

use core::net::SocketAddr;

use hermit_interface::Errno;
use smoltcp::socket::tcp::{CongestionControl, State};

use crate::address::Endpoint;
use crate::core::{Body, Core, Entry};
use crate::host::Host;
use crate::link::Link;
use crate::options::Settings;
use crate::socket::Shutdown;
use crate::tcp::channel::Channel;
use crate::tcp::connection::Phase;
use crate::tcp::side::Path;

impl Core {
    /// Gives a stream its own address.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `EADDRINUSE`, `EADDRNOTAVAIL`, `ENOMEM`.
    pub(crate) fn bind_stream(
        &mut self,
        slot: u32,
        local: Endpoint,
        host: &mut dyn Host,
    ) -> Result<(), Errno> {
        self.forget_old();
        let Some(entry) = self.sockets.get(slot) else { return Err(Errno::EBADF) };
        if entry.is_bound() || !matches!(entry.body, Body::Idle) {
            return Err(Errno::EINVAL);
        }
        self.check_own(entry.family, &entry.settings, local.address)?;
        self.take_address(slot, local, host)
    }

    /// A channel for a connection.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn channel(&mut self, settings: &Settings, path: Path) -> Result<Channel, Errno> {
        let size = |size: Option<u32>| size.and_then(|size| usize::try_from(size).ok());
        let mut channel = self.budget.channel(size(settings.receive_buffer), size(settings.send_buffer))?;
        // Nothing is lost between two ends on one host but for want of memory.
        channel.refresh(if path == Path::Local { CongestionControl::None } else { CongestionControl::Reno });
        Ok(channel)
    }

    /// Adds a connection, of which the tables know then.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn adopt(&mut self, entry: Entry) -> Result<u32, Errno> {
        let slot = self.insert(entry)?;
        if let Err(error) = self.map(slot) {
            self.discard(slot);
            return Err(error);
        }
        Ok(slot)
    }

    /// Sends bytes on a stream.
    ///
    /// # Errors
    ///
    /// See [`Stack::send`](crate::Stack::send).
    pub(crate) fn send_stream(
        &mut self,
        slot: u32,
        bytes: &[u8],
        link: &mut dyn Link,
    ) -> Result<usize, Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if let Some(error) = entry.error.take() {
            return Err(error);
        }
        let Some(connection) = entry.connection_mut() else { return Err(Errno::EPIPE) };
        if connection.is_over || connection.shut_write {
            return Err(Errno::EPIPE);
        }
        if !connection.is_established() {
            return Err(Errno::EAGAIN);
        }
        let sent = connection.channel.socket_mut().send_slice(bytes).map_err(|_| Errno::EPIPE)?;
        if sent == 0 && !bytes.is_empty() {
            return Err(Errno::EAGAIN);
        }
        connection.note_offered(sent);
        self.offer(slot, link);
        Ok(sent)
    }

    /// Receives bytes of a stream.
    ///
    /// # Errors
    ///
    /// See [`Stack::receive`](crate::Stack::receive).
    pub(crate) fn receive_stream(
        &mut self,
        slot: u32,
        peek: bool,
        sink: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        let error = entry.error;
        let Some(connection) = entry.connection_mut() else { return Err(Errno::ENOTCONN) };
        if connection.channel.socket().can_recv() && connection.is_established() {
            if peek {
                return Ok(peek_into(&mut connection.channel, sink));
            }
            let before = connection.channel.socket().recv_queue();
            let taken = take_into(&mut connection.channel, sink);
            if connection.may_invite(before) {
                self.consider(slot);
            }
            return Ok(taken);
        }
        let is_read_over = connection.is_read_over();
        // What happens after the end does not concern who reads.
        if let Some(error) = error.filter(|_| !connection.has_ended) {
            entry.error = None;
            return Err(error);
        }
        if is_read_over { Ok(0) } else { Err(Errno::EAGAIN) }
    }

    /// Shuts halves of a stream down.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn shut_stream(&mut self, slot: u32, how: Shutdown, host: &mut dyn Host) -> Result<(), Errno> {
        let Some(entry) = self.sockets.get_mut(slot) else { return Err(Errno::EBADF) };
        if matches!(entry.body, Body::Listener(_)) {
            if how.reads() {
                self.stop_listening(slot, host);
            }
            return Ok(());
        }
        let connection = entry.connection_mut();
        let alive = connection.filter(|alive| !alive.is_over && alive.state() != State::TimeWait);
        let Some(connection) = alive else { return Err(Errno::ENOTCONN) };
        if connection.phase == Phase::Connecting {
            self.fail(slot, Errno::ECONNRESET, host);
            return Ok(());
        }
        connection.shut(how);
        entry.wake(host);
        self.mark(slot);
        Ok(())
    }

    /// Closes a stream, which may live on until its data has been delivered.
    pub(crate) fn close_stream(&mut self, slot: u32, is_reset: bool, host: &mut dyn Host) {
        self.dismiss(slot, host);
        let Some(entry) = self.sockets.get_mut(slot) else { return };
        entry.cookie = None;
        let Some(connection) = entry.connection_mut() else {
            self.remove(slot);
            return;
        };
        let is_unread = connection.channel.socket().can_recv();
        if connection.is_over && !connection.has_reset_to_send() || connection.phase == Phase::Connecting {
            return self.discard(slot);
        }
        if connection.is_over {
            // The reset is tried once more, and the rest goes with it.
            return self.mark(slot);
        }
        // What was received and not read would be lost without the peer's knowledge (RFC 2525, section 2.17).
        if is_reset || is_unread || connection.state() == State::SynReceived {
            return self.reset(slot, None, host);
        }
        connection.shut(Shutdown::Write);
        self.mark(slot);
    }

    /// Ends both halves of a stream as closing it does, and tells whether there is still something to be waited for.
    ///
    /// # Errors
    ///
    /// `EAGAIN`: the peer has not acknowledged everything.
    pub(crate) fn finish_stream(&mut self, slot: u32) -> Result<(), Errno> {
        let connection = self.connection(slot).filter(|connection| connection.is_established());
        let Some(connection) = connection.filter(|connection| !connection.is_over) else { return Ok(()) };
        // Closing resets the peer then.
        if connection.channel.socket().can_recv() {
            return Ok(());
        }
        connection.shut(Shutdown::Both);
        let is_outstanding = connection.is_outstanding();
        self.mark(slot);
        if is_outstanding { Err(Errno::EAGAIN) } else { Ok(()) }
    }

    /// The own address of a stream.
    pub(crate) fn local_of_stream(entry: &Entry) -> SocketAddr {
        let connected = entry.connection().map(|connection| connection.tuple.local);
        connected.unwrap_or(entry.own).present(entry.family)
    }

    /// The address of the peer of a stream.
    ///
    /// # Errors
    ///
    /// `ENOTCONN`.
    pub(crate) fn remote_of_stream(entry: &Entry) -> Result<SocketAddr, Errno> {
        let connection =
            entry.connection().filter(|connection| connection.is_established() && !connection.is_over);
        connection.map(|connection| connection.tuple.remote.present(entry.family)).ok_or(Errno::ENOTCONN)
    }
}

/// Gives received bytes away; returns how many were taken. They lie in one piece or in two.
pub(crate) fn take_into(channel: &mut Channel, sink: &mut dyn FnMut(&[u8]) -> usize) -> usize {
    let mut total = 0;
    for _ in 0..2 {
        let offered = |bytes: &mut [u8]| {
            let taken = sink(bytes).min(bytes.len());
            (taken, (taken, taken == bytes.len()))
        };
        if !channel.socket().can_recv() {
            break;
        }
        let Ok((taken, took_all)) = channel.socket_mut().recv(offered) else { break };
        total += taken;
        if !took_all {
            break;
        }
    }
    total
}

/// Shows received bytes; returns how many were taken. smoltcp shows no more than the first piece, unless copied.
fn peek_into(channel: &mut Channel, sink: &mut dyn FnMut(&[u8]) -> usize) -> usize {
    let queued = channel.socket().recv_queue();
    let Ok(first) = channel.socket_mut().peek(queued) else { return 0 };
    let size = first.len();
    let taken = sink(first).min(size);
    let mut copy = alloc::vec::Vec::new();
    if taken < size || size == queued || copy.try_reserve_exact(queued).is_err() {
        return taken;
    }
    copy.resize(queued, 0);
    let copied = channel.socket_mut().peek_slice(&mut copy).unwrap_or(0);
    let rest = copy.get(size..copied).unwrap_or(&[]);
    taken + sink(rest).min(rest.len())
}
