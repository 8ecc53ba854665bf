//! The port table of a protocol.
//!
//! For each local port in use, the table has the bound sockets and the number of connections. Linux's rules
//! decide if a port may be bound: two bindings conflict if they have an address in common, unless both have
//! `SO_REUSEADDR` and the existing one does not listen. Connections count, too, also in TIME-WAIT: a port
//! with connections can be bound only if their sockets and the new one have `SO_REUSEADDR`. The shards of TCP
//! share one table.

use alloc::vec::Vec;
use core::net::IpAddr;

use foldhash::quality::FixedState;
use hashbrown::HashMap;
use hermit_interface::Errno;

use crate::socket::address::Scope;
use crate::socket::slab::table_of;

/// Range of ephemeral ports: Linux's `ip_local_port_range`.
const FIRST: u16 = 32_768;
const LAST: u16 = 60_999;

/// A socket that is bound to a port.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding {
    pub(crate) slot: u32,
    pub(crate) scope: Scope,
    /// `SO_REUSEADDR`.
    pub(crate) reuse: bool,
    pub(crate) is_listening: bool,
    /// True if this is the replica of a listener in another shard. Checks ignore replicas, since the listener
    /// itself has the same conflicts.
    pub(crate) is_replica: bool,
}

impl Binding {
    /// True if the binding conflicts with another one (Linux's `inet_csk_bind_conflict`).
    fn excludes(&self, scope: Scope, reuse: bool) -> bool {
        let shared = self.reuse && reuse && !self.is_listening;
        self.scope.overlaps(scope) && !shared
    }
}

#[derive(Debug, Default)]
struct Port {
    bindings: Vec<Binding>,
    /// Number of connections with this local port, including those in TIME-WAIT or without a socket.
    connections: u32,
    /// Number of these connections that do not have `SO_REUSEADDR`.
    exclusive: u32,
}

impl Port {
    fn is_unused(&self) -> bool {
        self.bindings.is_empty() && self.connections == 0
    }
}

/// Ports of one protocol.
#[derive(Debug)]
pub(crate) struct Ports {
    ports: HashMap<u16, Port, FixedState>,
}

impl Ports {
    pub(crate) const fn new(seed: u64) -> Self {
        Self { ports: HashMap::with_hasher(FixedState::with_seed(seed)) }
    }

    /// Returns the sockets that are bound to a port.
    pub(crate) fn bindings(&self, port: u16) -> &[Binding] {
        self.ports.get(&port).map_or(&[], |port| &port.bindings)
    }

    /// Returns the listener of a shard for an address. A listener bound to the address takes precedence over
    /// one bound to all addresses.
    pub(crate) fn listener(&self, port: u16, destination: IpAddr, shard: u32) -> Option<u32> {
        let is_listener = |binding: &&Binding| binding.is_listening && table_of(binding.slot) == shard;
        let listening = self.bindings(port).iter().filter(is_listener);
        let fitting = listening.filter(|binding| binding.scope.contains(destination));
        fitting.max_by_key(|binding| matches!(binding.scope, Scope::One(_))).map(|binding| binding.slot)
    }

    /// True if a socket other than `slot` conflicts with a new binding.
    pub(crate) fn is_taken(&self, port: u16, scope: Scope, reuse: bool, slot: Option<u32>) -> bool {
        self.ports.get(&port).is_some_and(|port| {
            let is_other = |binding: &&Binding| Some(binding.slot) != slot && !binding.is_replica;
            let others = port.bindings.iter().filter(is_other);
            let conflict = others.into_iter().any(|binding| binding.excludes(scope, reuse));
            // No binding conflicts. Connections of sockets that are no longer bound may still conflict.
            conflict || slot.is_none() && (port.exclusive > 0 || port.connections > 0 && !reuse)
        })
    }

    /// True if a port has neither bindings nor connections.
    pub(crate) fn is_unused(&self, port: u16) -> bool {
        !self.ports.contains_key(&port)
    }

    /// Returns a free ephemeral port. The search starts at a random port.
    pub(crate) fn choose(random: u64, is_free: impl Fn(u16) -> bool) -> Option<u16> {
        let count = u64::from(LAST - FIRST) + 1;
        let start = u16::try_from(random % count).unwrap_or(0);
        let upper = (FIRST + start)..=LAST;
        upper.chain(FIRST..FIRST + start).find(|&port| is_free(port))
    }

    fn port(&mut self, port: u16) -> Result<&mut Port, Errno> {
        self.ports.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        Ok(self.ports.entry(port).or_default())
    }

    fn change(&mut self, port: u16, change: impl FnOnce(&mut Port)) {
        if let Some(socket) = self.ports.get_mut(&port) {
            change(socket);
            if socket.is_unused() {
                self.ports.remove(&port);
            }
        }
    }

    /// Adds a binding to a port.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn bind(&mut self, port: u16, binding: Binding) -> Result<(), Errno> {
        let bindings = &mut self.port(port)?.bindings;
        bindings.try_reserve(1)?;
        bindings.push(binding);
        Ok(())
    }

    /// Removes the binding of a socket from a port.
    pub(crate) fn unbind(&mut self, port: u16, slot: u32) {
        self.change(port, |port| port.bindings.retain(|binding| binding.slot != slot));
    }

    /// Updates the binding of a socket.
    pub(crate) fn update(&mut self, port: u16, slot: u32, update: impl FnOnce(&mut Binding)) {
        self.change(port, |port| {
            if let Some(binding) = port.bindings.iter_mut().find(|binding| binding.slot == slot) {
                update(binding);
            }
        });
    }

    /// Counts a new connection at a port.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn connected(&mut self, port: u16, reuse: bool) -> Result<(), Errno> {
        let port = self.port(port)?;
        port.connections += 1;
        port.exclusive += u32::from(!reuse);
        Ok(())
    }

    /// Removes a connection at a port from the count.
    pub(crate) fn disconnected(&mut self, port: u16, reuse: bool) {
        self.change(port, |port| {
            port.connections = port.connections.saturating_sub(1);
            port.exclusive = port.exclusive.saturating_sub(u32::from(!reuse));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::{Binding, FIRST, LAST, Ports};
    use crate::socket::address::Scope;
    use core::net::{IpAddr, Ipv4Addr};
    use proptest::{prop_assert, proptest};

    const ANY: Scope = Scope::Any { v4: true, v6: false };
    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn binding(slot: u32, scope: Scope, reuse: bool, is_listening: bool) -> Binding {
        Binding { slot, scope, reuse, is_listening, is_replica: false }
    }

    #[test]
    fn port_is_shared_by_non_listeners_with_reuse() {
        for (first, second, listening, taken) in [
            (true, true, false, false),
            (true, true, true, true),
            (true, false, false, true),
            (false, true, false, true),
        ] {
            let mut ports = Ports::new(1);
            ports.bind(80, binding(1, ANY, first, listening)).unwrap();
            assert_eq!(ports.is_taken(80, Scope::One(HERE), second, None), taken);
            assert!(!ports.is_taken(81, Scope::One(HERE), second, None));
            assert!(!ports.is_taken(80, Scope::One(HERE), second, Some(1)));
        }
    }

    #[test]
    fn connections_block_bindings_without_reuse() {
        let mut ports = Ports::new(1);
        ports.connected(80, true).unwrap();
        assert!(ports.is_taken(80, ANY, false, None) && !ports.is_taken(80, ANY, true, None));
        ports.connected(80, false).unwrap();
        assert!(ports.is_taken(80, ANY, true, None));
        ports.disconnected(80, false);
        ports.disconnected(80, true);
        assert!(!ports.is_taken(80, ANY, false, None) && ports.is_unused(80));
    }

    #[test]
    fn listener_of_an_address_precedes_wildcard() {
        let mut ports = Ports::new(1);
        ports.bind(80, binding(1, Scope::One(HERE), true, true)).unwrap();
        ports.bind(80, binding(2, ANY, true, true)).unwrap();
        ports.bind(80, binding(3, Scope::One(HERE), true, false)).unwrap();
        assert_eq!(ports.listener(80, HERE, 0), Some(1));
        assert_eq!(ports.listener(80, [10, 0, 0, 1].into(), 0), Some(2));
        ports.unbind(80, 1);
        assert_eq!(ports.listener(80, HERE, 0), Some(2));
        assert_eq!(ports.listener(81, HERE, 0), None);
    }

    proptest! {
        #[test]
        fn choose_finds_the_only_free_port(random: u64, free in FIRST..=LAST) {
            prop_assert!(Ports::choose(random, |port| port == free) == Some(free));
            prop_assert!(Ports::choose(random, |_| false).is_none());
            prop_assert!(Ports::choose(random, |_| true).is_some_and(|port| (FIRST..=LAST).contains(&port)));
        }
    }
}
