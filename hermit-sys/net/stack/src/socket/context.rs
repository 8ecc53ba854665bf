//! Context of a call on a protocol: everything except the protocol's own state.

use crate::host::Random;
use crate::ip::layer::Ip;
use crate::phy::Phy;
use crate::socket::buffers::BufferAccounting;
use crate::socket::ports::Ports;

/// Layers below a protocol, and state that it shares with other protocols.
pub(crate) struct Context<'a> {
    /// Time in nanoseconds.
    pub(crate) now: u64,
    pub(crate) phy: &'a mut Phy,
    pub(crate) ip: &'a mut Ip,
    pub(crate) buffers: &'a mut BufferAccounting,
    /// Ports of TCP, shared by its shards.
    pub(crate) tcp_ports: &'a mut Ports,
    pub(crate) random: &'a mut dyn Random,
}
