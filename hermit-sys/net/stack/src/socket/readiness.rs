//! Readiness of sockets.

/// Readiness of a socket, as `poll` returns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    /// `POLLIN`: receiving or accepting does not block.
    pub read: bool,
    /// `POLLOUT`: sending does not block.
    pub write: bool,
    /// `POLLHUP`: both directions are shut down, or the socket was never connected.
    pub hang_up: bool,
    /// `POLLRDHUP`: the peer has sent its FIN, or the receive direction is shut down.
    pub read_hang_up: bool,
    /// `POLLERR`: there is a pending error.
    pub error: bool,
}
