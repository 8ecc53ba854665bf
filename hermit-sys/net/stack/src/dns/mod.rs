//! Queries for the addresses of names.

pub(crate) mod client;

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermit_interface::Errno;
use hermit_interface::net::HOST_NAME;

use crate::config::HostAddress;
use crate::dns::client::{Question, normalized};
use crate::host::Host;
use crate::inner::StackInner;
use crate::ip::routes::is_link_local;
use crate::socket::SocketId;
use crate::socket::slab::Slab;

/// Identifier of a query. It is valid until the result is read, or the query is cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueryId(pub(crate) u64);

impl QueryId {
    /// Converts to a number for the C interface.
    #[must_use]
    pub const fn into_raw(self) -> u64 {
        self.0
    }

    /// Converts from a number.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// Address families of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// IPv4 addresses.
    V4,
    /// IPv6 addresses.
    V6,
    /// Addresses of both families.
    Both,
}

/// The reason why a query has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The query is pending.
    #[error("not answered yet")]
    Pending,
    /// The name does not exist, or has no address of the family: `EAI_NONAME`.
    #[error("no such name")]
    NoName,
    /// No server answered: `EAI_AGAIN`.
    #[error("no name server answers")]
    Again,
    /// No usable name server is configured: `EAI_AGAIN`, as in Linux.
    #[error("no name server is known")]
    NoServer,
    /// Out of memory: `EAI_MEMORY`.
    #[error("no memory")]
    Memory,
    /// The query does not exist.
    #[error("no such query")]
    Unknown,
}

/// Addresses of a name, in the order in which programs try them.
pub type Addresses = Vec<IpAddr>;

/// Maximum size of a name in bytes (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;

/// A query for addresses of one or both families.
#[derive(Debug)]
pub(crate) struct Query {
    waker_key: usize,
    parts: Vec<Question>,
    is_reported: bool,
}

impl Query {
    fn is_pending(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Question::Asked(_)))
    }

    fn result(self, prefers_v6: bool) -> Result<Addresses, ResolveError> {
        let mut addresses = Vec::new();
        let mut error = ResolveError::NoName;
        for part in self.parts {
            match part {
                Question::Answered(more) => addresses.extend(more),
                // A timeout takes precedence over a negative answer.
                Question::Failed(why) if why != ResolveError::NoName => error = why,
                Question::Failed(_) | Question::Asked(_) => (),
            }
        }
        addresses.sort_by_key(|address| address.is_ipv6() != prefers_v6);
        if addresses.is_empty() { Err(error) } else { Ok(addresses) }
    }
}

impl Families {
    const fn contains(self, is_v4: bool) -> bool {
        match self {
            Self::V4 => is_v4,
            Self::V6 => !is_v4,
            Self::Both => true,
        }
    }
}

/// All queries.
pub(crate) type Queries = Slab<Query>;

impl StackInner {
    /// Addresses of a name that needs no DNS query.
    fn known_addresses(&self, name: &str) -> Option<Addresses> {
        if let Ok(address) = name.parse() {
            return Some([address].into());
        }
        let name = normalized(name);
        if name == "localhost" || name.ends_with(".localhost") {
            return Some([Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()].into());
        }
        self.hostname.as_ref().filter(|own| normalized(own) == name).map(|_| {
            let own = self.routes.addresses.iter().map(|own| own.address);
            let far: Addresses = own.filter(|address| !is_link_local(*address)).collect();
            // Without a network, the host's own name resolves to the loopback.
            if far.is_empty() { [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into() } else { far }
        })
    }

    /// Answer for [`HOST_NAME`](hermit_interface::net::HOST_NAME), which is never sent to DNS servers: it has no
    /// meaning outside of this machine.
    fn host_addresses(&self) -> Question {
        let addresses: Addresses = match self.host_address {
            None => return Question::Failed(ResolveError::NoName),
            Some(HostAddress::Address(address)) => [address].into(),
            Some(HostAddress::Gateway) => {
                // A link-local IPv6 address would be ambiguous without a scope.
                let is_usable = |gateway: &IpAddr| gateway.is_ipv4() || !is_link_local(*gateway);
                self.routes.gateways.iter().copied().filter(is_usable).collect()
            }
        };
        // The gateway comes with the address of a DHCP server, for which the kernel waits after this error.
        let is_awaited = self.config.as_ref().is_some_and(|config| !config.is_configured());
        if addresses.is_empty() && is_awaited {
            return Question::Failed(ResolveError::NoServer);
        }
        Question::Answered(addresses)
    }

    /// Starts a query.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOMEM`.
    pub(crate) fn resolve(
        &mut self,
        name: &str,
        families: Families,
        waker_key: usize,
        host: &mut dyn Host,
    ) -> Result<QueryId, Errno> {
        if name.is_empty() || name.len() > MAX_NAME || name.bytes().any(|byte| byte <= b' ') {
            return Err(Errno::EINVAL);
        }
        let mut parts = match self.known_addresses(name) {
            Some(addresses) => [Question::Answered(addresses)].into(),
            None if normalized(name) == HOST_NAME => [self.host_addresses()].into(),
            None => self.ask_servers(name, families, host)?,
        };
        for part in &mut parts {
            if let Question::Answered(addresses) = part {
                addresses.retain(|address| families.contains(address.is_ipv4()));
            }
        }
        let is_reported = parts.iter().all(|part| !matches!(part, Question::Asked(_)));
        let slot = self.queries.insert(Query { waker_key, parts, is_reported })?;
        Ok(QueryId(self.queries.id(slot).into_raw()))
    }

    fn ask_servers(
        &mut self,
        name: &str,
        families: Families,
        host: &mut dyn Host,
    ) -> Result<Vec<Question>, Errno> {
        let now = self.now;
        let Some(config) = &mut self.config else {
            return Ok([Question::Failed(ResolveError::NoServer)].into());
        };
        // Identifier and source port of a query must be unpredictable, against forged answers (RFC 5452).
        config.idle.reseed(host.random(), now);
        let (names, interface) = (&mut config.dns, config.idle.interface());
        let mut parts = Vec::new();
        for is_v4 in [true, false].into_iter().filter(|&is_v4| families.contains(is_v4)) {
            match names.ask(interface, name, is_v4) {
                Ok(part) => parts.push(part),
                Err(error) => {
                    parts.iter().for_each(|part| names.give_up(part));
                    return Err(error);
                }
            }
        }
        config.next = now;
        Ok(parts)
    }

    /// Updates all queries, of which there are few, and wakes the waiters of those that have a result.
    pub(crate) fn update_queries(&mut self, host: &mut dyn Host) {
        let Some(config) = &mut self.config else { return };
        for query in self.queries.iter_mut().filter(|query| !query.is_reported) {
            query.parts.iter_mut().for_each(|part| config.dns.update(part));
            if !query.is_pending() {
                query.is_reported = true;
                host.wake(query.waker_key);
            }
        }
    }

    /// Result of a query.
    ///
    /// # Errors
    /// The reason why there are no addresses.
    pub(crate) fn resolved(&mut self, query: QueryId) -> Result<Addresses, ResolveError> {
        let slot = self.queries.slot(SocketId::from_raw(query.0)).map_err(|_| ResolveError::Unknown)?;
        if self.queries.get(slot).is_some_and(Query::is_pending) {
            return Err(ResolveError::Pending);
        }
        let far = self.routes.addresses.iter().map(|own| own.address).filter(|own| !is_link_local(*own));
        let prefers_v6 = far.clone().any(|own| own.is_ipv6()) || far.count() == 0;
        let query = self.queries.remove(slot).ok_or(ResolveError::Unknown)?;
        query.result(prefers_v6)
    }

    /// Cancels a query.
    pub(crate) fn cancel(&mut self, query: QueryId) {
        let Ok(slot) = self.queries.slot(SocketId::from_raw(query.0)) else { return };
        let query = self.queries.remove(slot);
        if let (Some(query), Some(config)) = (query, &mut self.config) {
            query.parts.iter().for_each(|part| config.dns.give_up(part));
        }
    }
}
