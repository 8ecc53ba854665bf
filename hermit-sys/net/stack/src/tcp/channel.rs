//! One of smoltcp's sockets for TCP with its buffers, alone in a set.

use alloc::vec::Vec;

use hermit_interface::Errno;
use smoltcp::iface::{SocketHandle, SocketSet, SocketStorage};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};

/// What a connection needs besides its buffers, roughly.
const OVERHEAD: usize = 2 << 10;

/// A socket that can be used for one connection after the other.
#[derive(Debug)]
pub(crate) struct Channel {
    set: SocketSet<'static>,
    handle: SocketHandle,
}

fn buffer(size: usize) -> Result<Vec<u8>, Errno> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size).map_err(|_| Errno::ENOMEM)?;
    bytes.resize(size, 0);
    Ok(bytes)
}

impl Channel {
    /// A socket with buffers of these sizes.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(receive: usize, send: usize) -> Result<Self, Errno> {
        let socket = Socket::new(SocketBuffer::new(buffer(receive)?), SocketBuffer::new(buffer(send)?));
        let mut storage = Vec::new();
        storage.try_reserve_exact(1).map_err(|_| Errno::ENOMEM)?;
        storage.push(SocketStorage::EMPTY);
        let mut set = SocketSet::new(storage);
        let handle = set.add(socket);
        Ok(Self { set, handle })
    }

    /// Bytes that a channel with buffers of these sizes has.
    pub(crate) const fn footprint(receive: usize, send: usize) -> usize {
        receive + send + OVERHEAD
    }

    /// Bytes that this one has.
    pub(crate) fn bytes(&self) -> usize {
        let (receive, send) = self.sizes();
        Self::footprint(receive, send)
    }

    /// The sizes of its buffers: to receive and to send.
    pub(crate) fn sizes(&self) -> (usize, usize) {
        (self.socket().recv_capacity(), self.socket().send_capacity())
    }

    pub(crate) fn socket(&self) -> &Socket<'static> {
        self.set.get(self.handle)
    }

    pub(crate) fn socket_mut(&mut self) -> &mut Socket<'static> {
        self.set.get_mut(self.handle)
    }

    /// The set in which there is nothing but this socket.
    pub(crate) fn set(&mut self) -> &mut SocketSet<'static> {
        &mut self.set
    }

    /// Makes the socket as if it were new; smoltcp does the rest when it begins to listen or to connect.
    pub(crate) fn refresh(&mut self, congestion: CongestionControl) {
        let socket = self.socket_mut();
        socket.abort();
        socket.set_congestion_control(congestion);
        socket.set_keep_alive(None);
        socket.set_hop_limit(None);
        socket.set_nagle_enabled(true);
    }
}
