//! The words in which sockets are spoken of.

/// A socket of the stack. It stays valid until the socket is closed and is never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId(u64);

impl SocketId {
    pub(crate) fn new(slot: u32, generation: u32) -> Self {
        Self((u64::from(generation) << 32) | u64::from(slot))
    }

    /// The number of its slot and how often that was used before.
    pub(crate) fn parts(self) -> (u32, u32) {
        let [slot, generation] = [self.0 & u64::from(u32::MAX), self.0 >> 32];
        (u32::try_from(slot).unwrap_or(u32::MAX), u32::try_from(generation).unwrap_or(u32::MAX))
    }

    /// As a number, to cross a C interface.
    #[must_use]
    pub const fn into_raw(self) -> u64 {
        self.0
    }

    /// Of a number. One that never was a socket's is refused like one that has been closed, with `EBADF`.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// The family of addresses a socket speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, and IPv4 as mapped addresses unless the socket has [`OnlyV6`](crate::SocketOption::OnlyV6).
    V6,
}

/// What a socket carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A stream of bytes: TCP.
    Stream,
    /// Datagrams: UDP.
    Datagram,
}

/// Which half of a connection is shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing is received any more.
    Read,
    /// Nothing is sent any more.
    Write,
    /// Neither.
    Both,
}

impl Shutdown {
    pub(crate) const fn reads(self) -> bool {
        matches!(self, Self::Read | Self::Both)
    }

    pub(crate) const fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Both)
    }
}

/// What `poll` says of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// `POLLIN`: receiving, or accepting, does not have to wait.
    pub read: bool,
    /// `POLLOUT`: sending does not have to wait.
    pub write: bool,
    /// `POLLHUP`: both halves are over, or were never begun.
    pub hang_up: bool,
    /// `POLLRDHUP`: the peer sends no more, or nothing is received any more.
    pub read_hang_up: bool,
    /// `POLLERR`: there is an error to be taken.
    pub error: bool,
}

#[cfg(test)]
mod tests {
    use super::SocketId;

    #[test]
    fn an_id_keeps_its_parts() {
        for (slot, generation) in [(0, 0), (1, 7), (u32::MAX, 3), (5, u32::MAX)] {
            let id = SocketId::new(slot, generation);
            assert_eq!(id.parts(), (slot, generation));
            assert_eq!(SocketId::from_raw(id.into_raw()), id);
        }
    }
}
