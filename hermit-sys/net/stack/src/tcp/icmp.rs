//! ICMP errors about segments.

use hermit_interface::Errno;
use hermit_interface::net::MIN_MTU_V6;
use hermit_tcp::Seq;
use smoltcp::wire::IpProtocol;

use crate::ip::delivery::Quoted;
use crate::socket::address::{Endpoint, Tuple};
use crate::socket::context::Context;
use crate::tcp::connection::Phase;
use crate::tcp::layer::Tcp;
use crate::tcp::path::Limits;
use crate::tcp::shard::Shard;

/// Minimum path MTU that is accepted in IPv4: Linux's `ip_rt_min_pmtu`. For smaller ones, routers fragment.
const MIN_PATH_MTU_V4: u16 = 552;

impl Tcp {
    /// Handles an ICMP error about a segment. An error about a SYN is the result of `connect`. An error about
    /// a SYN-ACK ends the half-open connection, as in Linux (RFC 5461 §3). Other errors are ignored, since
    /// they may be forged (RFC 5927 §5.2).
    pub(crate) fn handle_icmp_error(&mut self, quoted: &Quoted<'_>, error: Errno, context: &mut Context<'_>) {
        let Some((shard, slot)) = self.find_sent(quoted) else { return };
        match shard.connection(slot).map(|connection| connection.phase) {
            Some(Phase::Connecting) => shard.fail(slot, error, context),
            Some(Phase::HalfOpen { .. }) => shard.discard(slot, context),
            _ => (),
        }
    }

    /// Handles "fragmentation needed" or "packet too big": reduces the MSS of the connection to the path MTU.
    pub(crate) fn shrink_path(&mut self, quoted: &Quoted<'_>, mtu: u16) {
        let Some((shard, slot)) = self.find_sent(quoted) else { return };
        let Some(connection) = shard.connection(slot) else { return };
        let remote = connection.tuple.remote.address;
        let least = if remote.is_ipv4() { MIN_PATH_MTU_V4 } else { MIN_MTU_V6 };
        connection.may_be_fragmented |= mtu < least;
        connection.tcp.reduce_mss(Limits::without_headers(mtu.max(least), &remote));
        shard.mark(slot);
    }

    /// Returns the connection of a quoted segment, if its sequence number is in flight. Otherwise the error
    /// may be forged (RFC 5927 §4.1).
    fn find_sent(&mut self, quoted: &Quoted<'_>) -> Option<(&mut Shard, u32)> {
        if quoted.protocol != IpProtocol::Tcp {
            return None;
        }
        let [local, remote] =
            [quoted.local, quoted.remote].map(|(address, port)| Endpoint::new(address, port));
        let seq = Seq(u32::from_be_bytes(quoted.payload.get(4..8)?.try_into().ok()?));
        let tuple = Tuple { local, remote };
        let shard = self.of_tuple(&tuple);
        let slot = *shard.connections.get(&tuple)?;
        let is_sent = shard.connection(slot)?.tcp.is_in_flight(seq);
        is_sent.then_some((shard, slot))
    }
}
