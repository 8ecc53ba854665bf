//! Identifiers of sockets.

use crate::socket::kind::Kind;
use crate::socket::slab::Key;

/// Bit of the slot that is set for datagram sockets, which have a table of their own.
const DATAGRAM: u32 = 1 << 31;

/// Identifier of a socket. It is valid until the socket is closed, and is not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId(u64);

impl SocketId {
    pub(crate) fn new(kind: Kind, key: Key) -> Self {
        let bit = if kind == Kind::Datagram { DATAGRAM } else { 0 };
        Self(Key { slot: key.slot | bit, ..key }.into_raw())
    }

    /// Type of the socket.
    pub(crate) fn kind(self) -> Kind {
        if Key::from_raw(self.0).slot & DATAGRAM == 0 { Kind::Stream } else { Kind::Datagram }
    }

    /// Key of the socket in the table of its protocol.
    pub(crate) fn key(self) -> Key {
        let key = Key::from_raw(self.0);
        Key { slot: key.slot & !DATAGRAM, ..key }
    }

    /// Converts to a number for the C interface.
    #[must_use]
    pub const fn into_raw(self) -> u64 {
        self.0
    }

    /// Converts from a number. Calls fail with `EBADF` if no socket has this number.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::SocketId;
    use crate::socket::kind::Kind;
    use crate::socket::slab::Key;

    #[test]
    fn socket_id_round_trips() {
        for (slot, generation) in [(0, 0), (1, 7), (u32::MAX >> 1, 3), (5, u32::MAX)] {
            for kind in [Kind::Stream, Kind::Datagram] {
                let key = Key { slot, generation };
                let id = SocketId::new(kind, key);
                assert_eq!((id.kind(), id.key()), (kind, key));
                assert_eq!(SocketId::from_raw(id.into_raw()), id);
            }
        }
    }
}
