//! Shortcut between two sockets of this host: data is copied to the receive buffer of the peer, without
//! segments.

use hermit_tcp::Pool;

use crate::tcp::connection::{Connection, Phase};
use crate::tcp::shard::Shard;

impl Shard {
    /// Copies bytes into the receive buffer of the other end of a connection within this host. Returns their
    /// number. Copies nothing while segments are queued in the loopback: the bytes would overtake them.
    pub(super) fn pass(&mut self, slot: u32, bytes: &[u8], pool: &mut Pool, now: u64) -> usize {
        if !self.loopback.is_empty() {
            return 0;
        }
        let Some(peer) = self.local_peer(slot) else { return 0 };
        let Some((socket, peer_socket)) = self.sockets.get_pair_mut(slot, peer) else { return 0 };
        let is_orphan = peer_socket.is_orphan();
        let (Some(connection), Some(other)) = (socket.connection_mut(), peer_socket.connection_mut()) else {
            return 0;
        };
        let is_current = other.tuple == connection.tuple.reversed() && other.is_mapped;
        if !is_current {
            connection.peer = None;
            return 0;
        }
        if is_orphan || !takes_data(other) {
            return 0;
        }
        let passed = connection.tcp.pass(bytes, &mut other.tcp, pool, now);
        let is_ack_due = connection.tcp.is_ack_due(now);
        if passed > 0 {
            self.sockets.wake(peer);
            if is_ack_due {
                self.mark(slot);
            }
        }
        passed
    }

    /// Slot of the other end of a connection within this host. The slot may be outdated.
    fn local_peer(&mut self, slot: u32) -> Option<u32> {
        let connection = self.connection(slot)?;
        if connection.peer.is_none() {
            let tuple = connection.tuple.reversed();
            let peer = self.connections.get(&tuple).copied();
            self.connection(slot)?.peer = peer;
            return peer;
        }
        connection.peer
    }
}

/// True if data for a connection can be read at once and has no other effect, and no data is unread. If data
/// is unread, small writes are better coalesced in the send buffer.
const fn takes_data(connection: &Connection) -> bool {
    let is_open = matches!(connection.phase, Phase::Queued { .. } | Phase::Open);
    is_open && !connection.is_over && !connection.shut_read && connection.tcp.readable() == 0
}
