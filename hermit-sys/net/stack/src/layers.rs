//! The layers of a stack, and the context that a call gets.

use hermit_interface::Errno;

use crate::config::Configuration;
use crate::dns::Dns;
use crate::host::Random;
use crate::ip::layer::Ip;
use crate::phy::Phy;
use crate::phy::device::NetDeviceInfo;
use crate::socket::buffers::BufferAccounting;
use crate::socket::context::Context;
use crate::socket::id::SocketId;
use crate::socket::kind::{Family, Kind};
use crate::socket::ports::Ports;
use crate::tcp::layer::Tcp;
use crate::udp::layer::Udp;

/// State of a stack, without the device and the system around it.
#[derive(Debug)]
pub(crate) struct Layers {
    /// Time in nanoseconds.
    pub(crate) now: u64,
    pub(crate) phy: Phy,
    pub(crate) ip: Ip,
    pub(crate) dns: Dns,
    pub(crate) udp: Udp,
    pub(crate) tcp: Tcp,
    pub(crate) tcp_ports: Ports,
    pub(crate) buffers: BufferAccounting,
    /// Start in nanoseconds of the current wait for a full transmit queue. `None` if no socket waits for it.
    pub(crate) stuck_since: Option<u64>,
}

/// Socket of a call: its slot in the table of its protocol.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target {
    Tcp(u32),
    Udp(u32),
}

impl Target {
    pub(crate) const fn kind(self) -> Kind {
        match self {
            Self::Tcp(_) => Kind::Stream,
            Self::Udp(_) => Kind::Datagram,
        }
    }
}

impl Layers {
    pub(crate) fn new(
        info: Option<NetDeviceInfo>,
        random: &mut dyn Random,
        configuration: &Configuration,
        now: u64,
    ) -> Self {
        let ip = Ip::new(info.as_ref(), random, configuration, now);
        Self {
            now,
            phy: Phy::new(info, now),
            dns: Dns::new(&ip, configuration),
            ip,
            udp: Udp::new(random.random()),
            tcp: Tcp::new(configuration.shards, configuration.congestion, random),
            tcp_ports: Ports::new(random.random()),
            buffers: BufferAccounting::new(configuration.buffers),
            stuck_since: None,
        }
    }

    /// Creates a socket; returns its identifier.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn create(&mut self, family: Family, kind: Kind, waker_key: usize) -> Result<SocketId, Errno> {
        let slot = match kind {
            Kind::Stream => self.tcp.create(family, waker_key),
            Kind::Datagram => self.udp.create(family, waker_key),
        };
        slot.map(|slot| self.id(kind, slot))
    }

    /// Identifier of the socket in a slot.
    pub(crate) fn id(&self, kind: Kind, slot: u32) -> SocketId {
        let key = match kind {
            Kind::Stream => self.tcp.of(slot).sockets.key(slot),
            Kind::Datagram => self.udp.sockets.key(slot),
        };
        SocketId::new(kind, key)
    }

    /// Returns the identifier of the socket in the slot with this index among all slots of a kind; `None` if
    /// there are fewer slots.
    pub(crate) fn id_at(&self, kind: Kind, index: usize) -> Option<SocketId> {
        let slot = match kind {
            Kind::Stream => self.tcp.slot_at(index),
            Kind::Datagram => self.udp.sockets.slot_at(index),
        };
        slot.map(|slot| self.id(kind, slot))
    }

    /// Returns the socket with an identifier.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    #[inline]
    pub(crate) fn find(&self, id: SocketId) -> Result<Target, Errno> {
        Ok(match id.kind() {
            Kind::Stream => Target::Tcp(self.tcp.slot(id.key())?),
            Kind::Datagram => Target::Udp(self.udp.sockets.slot(id.key())?),
        })
    }

    /// Family of a socket.
    pub(crate) fn family(&self, target: Target) -> Family {
        match target {
            Target::Tcp(slot) => self.tcp.of(slot).family(slot),
            Target::Udp(slot) => self.udp.family(slot),
        }
    }

    /// Number of sockets and packets that were processed. Tests check that it does not depend on the number
    /// of sockets.
    #[cfg(test)]
    pub(crate) fn visits(&self) -> u64 {
        self.tcp.visits() + self.udp.visits
    }

    /// Returns TCP and UDP, and the context for their calls.
    #[inline]
    pub(crate) const fn split<'a>(
        &'a mut self,
        random: &'a mut dyn Random,
    ) -> (&'a mut Tcp, &'a mut Udp, Context<'a>) {
        let Self { now, phy, ip, udp, tcp, tcp_ports, buffers, .. } = self;
        (tcp, udp, Context { now: *now, phy, ip, buffers, tcp_ports, random })
    }
}
