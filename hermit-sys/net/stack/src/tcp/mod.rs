//! TCP: streams, listeners, connections.

pub(crate) mod arrivals;
pub(crate) mod channel;
pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod deferred;
pub(crate) mod egress;
pub(crate) mod ingress;
pub(crate) mod lifecycle;
pub(crate) mod listener;
pub(crate) mod patience;
pub(crate) mod side;
pub(crate) mod stream;
pub(crate) mod time_wait;

use alloc::collections::VecDeque;

use foldhash::quality::FixedState;
use hashbrown::HashMap;

use crate::address::Tuple;
use crate::hardware::{HardwareInfo, IpVersion};
use crate::host::Host;
use crate::ports::Ports;
use crate::tcp::deferred::DeferredSyns;
use crate::tcp::side::{Path, Side};
use crate::tcp::time_wait::TimeWait;

/// All of TCP but the connections themselves.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) ports: Ports,
    pub(crate) connections: HashMap<Tuple, u32, FixedState>,
    pub(crate) time_wait: TimeWait,
    /// Connections of which the last part of the handshake is missing, in the order in which they came.
    pub(crate) half_open: VecDeque<u32>,
    pub(crate) deferred: DeferredSyns,
    pub(crate) local: Side,
    wire_v4: Option<Side>,
    wire_v6: Option<Side>,
}

impl Tcp {
    pub(crate) fn new(info: Option<&HardwareInfo>, host: &mut dyn Host, now: u64) -> Self {
        let mut wire = |version| info.map(|info| Side::wire(info, version, host.random(), now));
        let (wire_v4, wire_v6) = (wire(IpVersion::V4), wire(IpVersion::V6));
        Self {
            ports: Ports::new(host.random()),
            connections: HashMap::with_hasher(FixedState::with_seed(host.random())),
            time_wait: TimeWait::new(host.random()),
            half_open: VecDeque::new(),
            deferred: DeferredSyns::default(),
            local: Side::local(host.random(), now),
            wire_v4,
            wire_v6,
        }
    }

    /// The way a connection goes.
    pub(crate) const fn side(&mut self, path: Path) -> Option<&mut Side> {
        match path {
            Path::Local => Some(&mut self.local),
            Path::Wire(IpVersion::V4) => self.wire_v4.as_mut(),
            Path::Wire(IpVersion::V6) => self.wire_v6.as_mut(),
        }
    }
}
