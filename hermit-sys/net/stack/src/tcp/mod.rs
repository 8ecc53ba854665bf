//! TCP sockets, listeners and connections, around the state machine of `hermit-tcp`.

pub(crate) mod connect;
pub(crate) mod connection;
pub(crate) mod deferred;
mod icmp;
pub(crate) mod lifecycle;
pub(crate) mod listener;
pub(crate) mod path;
pub(crate) mod rx;
pub(crate) mod stream;
pub(crate) mod time_wait;
pub(crate) mod timers;
pub(crate) mod tx;

use alloc::collections::VecDeque;

use foldhash::quality::FixedState;
use hashbrown::HashMap;

use crate::host::Host;
use crate::socket::address::Tuple;
use crate::socket::ports::Ports;
use crate::tcp::deferred::DeferredSyns;
use crate::tcp::time_wait::TimeWait;

/// State of TCP, except the connections themselves.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) ports: Ports,
    pub(crate) connections: HashMap<Tuple, u32, FixedState>,
    pub(crate) time_wait: TimeWait,
    /// Slots of the half-open connections of all listeners, oldest first.
    pub(crate) half_open: VecDeque<u32>,
    pub(crate) deferred: DeferredSyns,
}

impl Tcp {
    pub(crate) fn new(host: &mut dyn Host) -> Self {
        Self {
            ports: Ports::new(host.random()),
            connections: HashMap::with_hasher(FixedState::with_seed(host.random())),
            time_wait: TimeWait::new(host.random()),
            half_open: VecDeque::new(),
            deferred: DeferredSyns::default(),
        }
    }
}
