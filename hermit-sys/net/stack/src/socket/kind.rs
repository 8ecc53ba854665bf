//! Families and types of sockets, and directions.

/// Address family of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6, and IPv4 by mapped addresses unless `IPV6_V6ONLY` is set.
    V6,
}

/// Type of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP (`SOCK_STREAM`).
    Stream,
    /// UDP (`SOCK_DGRAM`).
    Datagram,
}

/// Direction that `shutdown` closes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// `SHUT_RD`: no more is received.
    Read,
    /// `SHUT_WR`: no more is sent.
    Write,
    /// `SHUT_RDWR`: both directions.
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
