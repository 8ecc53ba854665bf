//! Resources that a network uses for the guest and its peers.

use crate::UserNetwork;
use crate::host::Host;

/// Resources that a network uses. Each number is bounded, whatever the guest and its peers do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of TCP flows. Each has a socket.
    pub tcp_flows: usize,
    /// Number of TCP flows that are not established.
    pub half_open: usize,
    /// Number of flows of datagrams. Those of clients of forwarded ports have no sockets.
    pub datagram_flows: usize,
    /// Number of entries in the queues of flows. Entries of flows that have ended are removed late.
    pub queued: usize,
    /// Number of frames for the guest that belong to no flow.
    pub frames: usize,
    /// Number of bytes of memory for data that the guest has sent and that sockets have not taken.
    pub kept: usize,
}

impl<H: Host> UserNetwork<H> {
    /// Returns the resources that the network uses.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let mut usage = Usage { frames: self.frames.len(), ..Usage::default() };
        self.tcp.count(&mut usage);
        self.datagrams.count(&mut usage);
        usage
    }

    /// Returns the number of TCP flows, and the number of flows of datagrams.
    #[cfg(test)]
    pub(crate) fn flows(&self) -> (usize, usize) {
        let usage = self.usage();
        (usage.tcp_flows, usage.datagram_flows)
    }
}
