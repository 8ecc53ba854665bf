//! Names to addresses.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermit_interface::Errno;
use hermit_interface::net::HOST_NAME;

use crate::configuration::HostAddress;
use crate::control::names::{Question, normalized};
use crate::core::Core;
use crate::host::Host;
use crate::network::is_link_local;
use crate::slab::Slab;
use crate::socket::SocketId;

/// A question for the addresses of a name. It stays valid until its answer was taken, or it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueryId(pub(crate) u64);

impl QueryId {
    /// As a number, to cross a C interface.
    #[must_use]
    pub const fn into_raw(self) -> u64 {
        self.0
    }

    /// Of a number.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// Of IPv4.
    V4,
    /// Of IPv6.
    V6,
    /// Of both.
    Both,
}

/// Why a name has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// There is no answer yet.
    #[error("not answered yet")]
    Pending,
    /// There is no such name, or it has no address of the family: `EAI_NONAME`.
    #[error("no such name")]
    NoName,
    /// No server answered: `EAI_AGAIN`.
    #[error("no name server answers")]
    Again,
    /// There is no name server that could be asked: `EAI_AGAIN` as well, as Linux says.
    #[error("no name server is known")]
    NoServer,
    /// There is no memory: `EAI_MEMORY`.
    #[error("no memory")]
    Memory,
    /// There is no such query.
    #[error("no such query")]
    Unknown,
}

/// What a name was resolved to, in the order in which addresses are to be tried.
pub type Addresses = Vec<IpAddr>;

/// Most bytes of a name (RFC 1035, section 2.3.4).
const MAX_NAME: usize = 253;

/// A question for addresses of one family or two.
#[derive(Debug)]
pub(crate) struct Query {
    cookie: usize,
    parts: Vec<Question>,
    is_told: bool,
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
                // That a server did not answer counts for more than that one said no.
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

impl Core {
    /// What is known of a name without asking anybody.
    fn known_addresses(&self, name: &str) -> Option<Addresses> {
        if let Ok(address) = name.parse() {
            return Some([address].into());
        }
        let name = normalized(name);
        if name == "localhost" || name.ends_with(".localhost") {
            return Some([Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()].into());
        }
        self.hostname.as_ref().filter(|own| normalized(own) == name).map(|_| {
            let own = self.network.addresses.iter().map(|own| own.address);
            let far: Addresses = own.filter(|address| !is_link_local(*address)).collect();
            // A host without a network is still itself.
            if far.is_empty() { [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into() } else { far }
        })
    }

    /// Answer for the name of this machine's host. DNS servers are not asked: outside of this machine it has no meaning.
    fn host_addresses(&self) -> Question {
        let addresses: Addresses = match self.host_address {
            None => return Question::Failed(ResolveError::NoName),
            Some(HostAddress::Address(address)) => [address].into(),
            Some(HostAddress::Gateway) => {
                // An address of IPv6 that is link-local would be ambiguous without a scope.
                let is_usable = |gateway: &IpAddr| gateway.is_ipv4() || !is_link_local(*gateway);
                self.network.gateways.iter().copied().filter(is_usable).collect()
            }
        };
        // The gateway comes with the address of a DHCP server, for which the kernel waits after this error.
        let is_awaited = self.control.as_ref().is_some_and(|control| !control.is_configured());
        if addresses.is_empty() && is_awaited {
            return Question::Failed(ResolveError::NoServer);
        }
        Question::Answered(addresses)
    }

    /// Begins to look up a name.
    ///
    /// # Errors
    ///
    /// `EINVAL`, `ENOMEM`.
    pub(crate) fn resolve(
        &mut self,
        name: &str,
        families: Families,
        cookie: usize,
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
        let is_told = parts.iter().all(|part| !matches!(part, Question::Asked(_)));
        let slot = self.queries.insert(Query { cookie, parts, is_told })?;
        Ok(QueryId(self.queries.id(slot).into_raw()))
    }

    fn ask_servers(
        &mut self,
        name: &str,
        families: Families,
        host: &mut dyn Host,
    ) -> Result<Vec<Question>, Errno> {
        let now = self.now;
        let Some(control) = &mut self.control else {
            return Ok([Question::Failed(ResolveError::NoServer)].into());
        };
        // Whoever can guess the number and the port of a question can answer it.
        control.idle.reseed(host.random(), now);
        let (names, interface) = (&mut control.names, control.idle.interface());
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
        control.next = now;
        Ok(parts)
    }

    /// Looks which queries have been answered, and wakes who asked. There are few.
    pub(crate) fn look_for_answers(&mut self, host: &mut dyn Host) {
        let Some(control) = &mut self.control else { return };
        for query in self.queries.iter_mut().filter(|query| !query.is_told) {
            query.parts.iter_mut().for_each(|part| control.names.look(part));
            if !query.is_pending() {
                query.is_told = true;
                host.wake(query.cookie);
            }
        }
    }

    /// The answer to a query.
    ///
    /// # Errors
    ///
    /// Why there are no addresses.
    pub(crate) fn resolved(&mut self, query: QueryId) -> Result<Addresses, ResolveError> {
        let slot = self.queries.slot(SocketId::from_raw(query.0)).map_err(|_| ResolveError::Unknown)?;
        if self.queries.get(slot).is_some_and(Query::is_pending) {
            return Err(ResolveError::Pending);
        }
        let far = self.network.addresses.iter().map(|own| own.address).filter(|own| !is_link_local(*own));
        let prefers_v6 = far.clone().any(|own| own.is_ipv6()) || far.count() == 0;
        let query = self.queries.remove(slot).ok_or(ResolveError::Unknown)?;
        query.result(prefers_v6)
    }

    /// Gives a query up.
    pub(crate) fn cancel(&mut self, query: QueryId) {
        let Ok(slot) = self.queries.slot(SocketId::from_raw(query.0)) else { return };
        let query = self.queries.remove(slot);
        if let (Some(query), Some(control)) = (query, &mut self.control) {
            query.parts.iter().for_each(|part| control.names.give_up(part));
        }
    }
}
