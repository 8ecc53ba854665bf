//! What a protocol may use, beside its own state.

use crate::host::Random;
use crate::ip::layer::Ip;
use crate::phy::Phy;
use crate::socket::buffers::BufferAccounting;
use crate::socket::ports::Ports;

/// The layers below a protocol, and what it shares with others.
pub(crate) struct Context<'a> {
    /// Time in nanoseconds.
    pub(crate) now: u64,
    pub(crate) phy: &'a mut Phy,
    pub(crate) ip: &'a mut Ip,
    pub(crate) buffers: &'a mut BufferAccounting,
    /// Ports of TCP, which its shards share.
    pub(crate) tcp_ports: &'a mut Ports,
    pub(crate) random: &'a mut dyn Random,
}
