//! TCP: streams, listeners, connections.

pub(crate) mod channel;
pub(crate) mod connection;
pub(crate) mod egress;
pub(crate) mod ingress;
pub(crate) mod listener;
pub(crate) mod patience;
pub(crate) mod stream;
pub(crate) mod time_wait;

use core::fmt;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::DeviceCapabilities;
use smoltcp::time::Instant;
use smoltcp::wire::HardwareAddress;

use crate::address::Tuple;
use crate::core::instant;
use crate::hardware::HardwareInfo;
use crate::host::Host;
use crate::ports::Ports;
use crate::tcp::time_wait::TimeWait;
use crate::wire::device::{self, Ingress};

use alloc::vec::Vec;

/// The largest packet from this host to itself.
const LOCAL_MTU: u16 = 65_535;

/// The smallest one that every device carries (RFC 791).
const LEAST_MTU: u16 = 576;

/// smoltcp's view of one way out: the device, or this host itself.
pub(crate) struct Side {
    pub(crate) interface: Interface,
    pub(crate) capabilities: DeviceCapabilities,
    pub(crate) fills_checksums: bool,
}

impl fmt::Debug for Side {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Side").field("capabilities", &self.capabilities).finish_non_exhaustive()
    }
}

impl Side {
    fn new(capabilities: DeviceCapabilities, seed: u64, now: u64) -> Self {
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut nothing = Ingress { packet: None, reply: &mut Vec::new(), capabilities: &capabilities };
        let interface = Interface::new(config, &mut nothing, instant(now));
        let mut side = Self { interface, capabilities, fills_checksums: false };
        side.reseed(seed, instant(now));
        side
    }

    /// Makes the next random number of smoltcp's one that nobody can guess from those before: a sequence number
    /// (RFC 6528). smoltcp's generator is not made for that, and cannot be seeded but at the start; an interface for
    /// packets of IP remembers nothing else.
    pub(crate) fn reseed(&mut self, seed: u64, now: Instant) {
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let mut nothing = Ingress { packet: None, reply: &mut Vec::new(), capabilities: &self.capabilities };
        self.interface = Interface::new(config, &mut nothing, now);
        // Whose packets are for us has been decided before smoltcp sees them.
        self.interface.set_any_ip(true);
    }

    /// The way to itself: checksums would be computed and verified by the same host.
    fn local(seed: u64, now: u64) -> Self {
        Self::new(device::without_tcp_checksums(device::ip_capabilities(LOCAL_MTU)), seed, now)
    }

    /// The way through a device.
    fn wire(info: &HardwareInfo, seed: u64, now: u64) -> Self {
        let mut capabilities = device::ip_capabilities(info.mtu.max(LEAST_MTU));
        if info.fills_checksums {
            capabilities = device::without_tcp_checksums(capabilities);
            if let Some(frame) = info.segments_v4 {
                capabilities = device::with_segmentation(capabilities, frame);
            }
        }
        Self { fills_checksums: info.fills_checksums, ..Self::new(capabilities, seed, now) }
    }

    /// Gives a packet to the sockets of a set. `reply` is empty then, or the answer.
    pub(crate) fn receive(
        &mut self,
        now: Instant,
        packet: &[u8],
        set: &mut SocketSet<'_>,
        reply: &mut Vec<u8>,
    ) {
        reply.clear();
        let mut device = Ingress { packet: Some(packet), reply, capabilities: &self.capabilities };
        self.interface.poll_ingress_single(now, &mut device, set);
    }
}

/// All of TCP but the connections themselves.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) ports: Ports,
    pub(crate) connections: HashMap<Tuple, u32, FixedState>,
    pub(crate) time_wait: TimeWait,
    /// Connections of which the last part of the handshake is missing.
    pub(crate) half_open: usize,
    pub(crate) local: Side,
    pub(crate) wire: Option<Side>,
}

impl Tcp {
    pub(crate) fn new(info: Option<&HardwareInfo>, host: &mut dyn Host, now: u64) -> Self {
        Self {
            ports: Ports::new(host.random()),
            connections: HashMap::with_hasher(FixedState::with_seed(host.random())),
            time_wait: TimeWait::new(host.random()),
            half_open: 0,
            local: Side::local(host.random(), now),
            wire: info.map(|info| Side::wire(info, host.random(), now)),
        }
    }

    /// The way a connection goes.
    pub(crate) const fn side(&mut self, is_local: bool) -> Option<&mut Side> {
        if is_local { Some(&mut self.local) } else { self.wire.as_mut() }
    }
}
