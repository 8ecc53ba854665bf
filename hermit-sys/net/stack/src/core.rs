//! The state of the stack, without the device and the system around it.

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use hermit_interface::Errno;
use smoltcp::time::Instant;
use smoltcp::wire::EthernetAddress;

use crate::address::{Endpoint, Scope, unspecified};
use crate::allowance::Allowance;
use crate::budget::Budget;
use crate::configuration::{Configuration, HostAddress};
use crate::control::Control;
use crate::hardware::HardwareInfo;
use crate::host::Host;
use crate::link::Queue;
use crate::network::Network;
use crate::network::neighbors::Neighbors;
use crate::options::Settings;
use crate::ports::Ports;
use crate::resolve::Queries;
use crate::slab::Slab;
use crate::socket::{Family, Kind, SocketId};
use crate::tcp::Tcp;
use crate::tcp::connection::Connection;
use crate::tcp::listener::Listener;
use crate::timers::Timers;
use crate::udp::Datagrams;
use crate::udp::groups::Membership;
use crate::wire::fragments::Fragments;

/// What a socket is.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "most sockets are connections, and a box cannot be made fallibly"
)]
pub(crate) enum Body {
    /// A stream that has not been connected, and does not listen.
    Idle,
    Listener(Listener),
    Connection(Connection),
    Datagrams(Datagrams),
}

/// A socket, or a connection that is nobody's.
#[derive(Debug)]
pub(crate) struct Entry {
    /// What its owner is woken with. `None`: it has none, because it was closed or not yet accepted.
    pub(crate) cookie: Option<usize>,
    pub(crate) family: Family,
    pub(crate) settings: Settings,
    /// What happened to it and has not been told.
    pub(crate) error: Option<Errno>,
    /// Its own address as bound. It has a binding at the port, or none if that is 0.
    pub(crate) own: Endpoint,
    /// Nobody asked for that port: it is given up when the socket is disconnected.
    pub(crate) has_any_port: bool,
    pub(crate) body: Body,
    /// It is in the queue of those that may have something to send.
    pub(crate) is_dirty: bool,
}

impl Entry {
    /// One that nothing has been done with.
    pub(crate) fn new(cookie: Option<usize>, family: Family, settings: Settings, body: Body) -> Self {
        let own = Core::nowhere(family);
        Self { cookie, family, settings, error: None, own, has_any_port: false, body, is_dirty: false }
    }

    /// Whether it has an address of its own.
    pub(crate) const fn is_bound(&self) -> bool {
        self.own.port != 0
    }

    /// The addresses at which it is reached, if it is bound.
    pub(crate) fn scope(&self) -> Scope {
        Scope::new(self.own.address, self.family, self.settings.only_v6)
    }

    pub(crate) fn wake(&self, host: &mut dyn Host) {
        if let Some(cookie) = self.cookie {
            host.wake(cookie);
        }
    }

    pub(crate) const fn is_datagrams(&self) -> bool {
        matches!(self.body, Body::Datagrams(_))
    }

    /// The ports of its protocol.
    pub(crate) const fn ports<'a>(&self, udp: &'a mut Ports, tcp: &'a mut Tcp) -> &'a mut Ports {
        if self.is_datagrams() { udp } else { &mut tcp.ports }
    }
}

/// The device, as far as it does not change.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Port {
    pub(crate) info: HardwareInfo,
    pub(crate) mac: EthernetAddress,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) now: u64,
    /// Time in nanoseconds at which no received frame was left: what peers had sent by then is known.
    pub(crate) caught_up: u64,
    pub(crate) port: Option<Port>,
    pub(crate) sockets: Slab<Entry>,
    pub(crate) timers: Timers,
    /// Who may have something to send.
    pub(crate) dirty: VecDeque<u32>,
    pub(crate) budget: Budget,
    pub(crate) network: Network,
    pub(crate) neighbors: Neighbors,
    pub(crate) fragments: Fragments,
    pub(crate) tcp: Tcp,
    pub(crate) udp: Ports,
    pub(crate) control: Option<Control>,
    pub(crate) queries: Queries,
    pub(crate) hostname: Option<String>,
    /// Address of [`HOST_NAME`](hermit_interface::net::HOST_NAME).
    pub(crate) host_address: Option<HostAddress>,
    /// How many sockets have joined each group.
    pub(crate) groups: HashMap<Membership, u32, FixedState>,
    /// Who waits for room in the device.
    pub(crate) blocked: Vec<u32>,
    /// Since when nothing has moved for which somebody waits.
    pub(crate) stuck_since: Option<u64>,
    /// Who waits for the device to have sent what is before.
    pub(crate) corked: Vec<u32>,
    /// Packets from this host to itself.
    pub(crate) local: Queue,
    /// How many control messages may be sent about what others send.
    pub(crate) complaints: Allowance,
    /// Frames that wait for the device.
    pub(crate) outbox: Queue,
    /// At the end: what is in lower slots has been delivered.
    pub(crate) delivered: u32,
    /// Of the last datagram that was sent in parts.
    pub(crate) identification: u32,
    /// What smoltcp answers to a packet.
    pub(crate) reply: Vec<u8>,
    /// How many sockets and packets were looked at, to show that it does not depend on how many there are.
    #[cfg(test)]
    pub(crate) visits: u64,
}

/// A time as smoltcp has it.
pub(crate) fn instant(now: u64) -> Instant {
    Instant::from_micros(i64::try_from(now / 1000).unwrap_or(i64::MAX))
}

/// A time of smoltcp's in nanoseconds.
pub(crate) fn nanoseconds(instant: Instant) -> u64 {
    u64::try_from(instant.total_micros()).unwrap_or(0).saturating_mul(1000)
}

impl Core {
    pub(crate) fn new(
        info: Option<HardwareInfo>,
        host: &mut dyn Host,
        configuration: Configuration,
        now: u64,
    ) -> Self {
        let port = info.map(|info| Port { info, mac: EthernetAddress(info.mac) });
        let mtu = usize::from(info.map_or(u16::MAX, |info| info.mtu));
        let mut core = Self {
            now,
            caught_up: now,
            port,
            sockets: Slab::new(),
            timers: Timers::default(),
            dirty: VecDeque::new(),
            budget: Budget::new(configuration.buffers),
            network: Network::default(),
            neighbors: Neighbors::new(host.random()),
            fragments: Fragments::default(),
            tcp: Tcp::new(host),
            udp: Ports::new(host.random()),
            control: info.as_ref().map(|info| Control::new(info, host.random(), &configuration, now)),
            queries: Queries::new(),
            hostname: configuration.hostname,
            host_address: configuration.host,
            groups: HashMap::with_hasher(FixedState::with_seed(host.random())),
            blocked: Vec::new(),
            stuck_since: None,
            corked: Vec::new(),
            local: Queue::default(),
            complaints: Allowance::new(now),
            outbox: Queue::default(),
            delivered: 0,
            identification: u32::try_from(host.random() >> 32).unwrap_or(0),
            reply: Vec::with_capacity(mtu),
            #[cfg(test)]
            visits: 0,
        };
        core.learn_addresses();
        core
    }

    /// Takes over the addresses that the host has now.
    pub(crate) fn learn_addresses(&mut self) {
        let Some(control) = &mut self.control else { return };
        if control.has_news() {
            self.network = Network { addresses: control.addresses(), gateways: control.gateways() };
        }
    }

    /// Counts a piece of work.
    pub(crate) const fn visit(&mut self) {
        #[cfg(test)]
        {
            self.visits += 1;
        }
    }

    /// Adds a socket or connection.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn insert(&mut self, entry: Entry) -> Result<u32, Errno> {
        let slots = self.sockets.slots() + 1;
        self.timers.reserve(slots)?;
        self.dirty.try_reserve(slots.saturating_sub(self.dirty.len())).map_err(|_| Errno::ENOMEM)?;
        self.sockets.insert(entry)
    }

    /// A new socket.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn socket(&mut self, family: Family, kind: Kind, cookie: usize) -> Result<SocketId, Errno> {
        let body = match kind {
            Kind::Stream => Body::Idle,
            Kind::Datagram => Body::Datagrams(Datagrams::default()),
        };
        let slot = self.insert(Entry::new(Some(cookie), family, Settings::default(), body))?;
        Ok(self.sockets.id(slot))
    }

    /// A socket by its name.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    #[inline]
    pub(crate) fn entry(&mut self, id: SocketId) -> Result<(u32, &mut Entry), Errno> {
        let slot = self.sockets.slot(id)?;
        self.sockets.get_mut(slot).map(|entry| (slot, entry)).ok_or(Errno::EBADF)
    }

    /// A socket by its name, to be looked at.
    ///
    /// # Errors
    ///
    /// `EBADF`.
    pub(crate) fn peek(&self, id: SocketId) -> Result<&Entry, Errno> {
        self.sockets.slot(id).and_then(|slot| self.sockets.get(slot).ok_or(Errno::EBADF))
    }

    /// Queues a socket to be looked after: it may have something to send, or be over.
    pub(crate) fn mark(&mut self, slot: u32) {
        if let Some(entry) = self.sockets.get_mut(slot)
            && !entry.is_dirty
        {
            entry.is_dirty = true;
            self.dirty.push_back(slot);
        }
    }

    /// Removes a socket from everywhere but the tables of its protocol.
    pub(crate) fn remove(&mut self, slot: u32) -> Option<Entry> {
        self.timers.set(slot, None);
        let entry = self.sockets.remove(slot)?;
        entry.ports(&mut self.udp, &mut self.tcp).unbind(entry.own.port, slot);
        Some(entry)
    }

    /// What a socket that has no address of its own is said to have.
    pub(crate) const fn nowhere(family: Family) -> Endpoint {
        Endpoint::new(unspecified(family), 0)
    }
}
