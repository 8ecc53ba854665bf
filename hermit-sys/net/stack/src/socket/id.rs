//! Identifiers of sockets.

/// Identifier of a socket. It is valid until the socket is closed, and not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId(u64);

impl SocketId {
    pub(crate) fn new(slot: u32, generation: u32) -> Self {
        Self((u64::from(generation) << 32) | u64::from(slot))
    }

    /// Slot index and generation of the slot.
    pub(crate) fn parts(self) -> (u32, u32) {
        let [slot, generation] = [self.0 & u64::from(u32::MAX), self.0 >> 32];
        (u32::try_from(slot).unwrap_or(u32::MAX), u32::try_from(generation).unwrap_or(u32::MAX))
    }

    /// Converts to a number for the C interface.
    #[must_use]
    pub const fn into_raw(self) -> u64 {
        self.0
    }

    /// Converts from a number. Calls fail with `EBADF` if no socket has it.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

#[cfg(test)]
mod tests {
    use super::SocketId;

    #[test]
    fn socket_id_round_trips() {
        for (slot, generation) in [(0, 0), (1, 7), (u32::MAX, 3), (5, u32::MAX)] {
            let id = SocketId::new(slot, generation);
            assert_eq!(id.parts(), (slot, generation));
            assert_eq!(SocketId::from_raw(id.into_raw()), id);
        }
    }
}
