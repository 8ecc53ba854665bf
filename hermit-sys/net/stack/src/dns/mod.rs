//! Queries for the addresses of names.

pub(crate) mod answer;
pub(crate) mod client;

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermit_interface::Errno;
use hermit_interface::net::HOST_NAME;

use crate::config::{Configuration, HostAddress};
use crate::dns::answer::{Addresses, ResolveError};
use crate::dns::client::{Client, Question, normalized};
use crate::host::Random;
use crate::ip::config::SmoltcpSocket;
use crate::ip::layer::Ip;
use crate::ip::routes::is_link_local;
use crate::phy::Phy;
use crate::phy::tx_queue::Link;
use crate::socket::slab::{Key, Slab};

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

/// State of the layer.
#[derive(Debug)]
pub(crate) struct Dns {
    queries: Slab<Query>,
    client: Client,
    /// Name of this host.
    hostname: Option<String>,
    /// Address of [`HOST_NAME`].
    host_address: Option<HostAddress>,
    /// Whether there are static DNS servers, which take precedence over those of a lease.
    has_static_servers: bool,
    /// Waker keys of queries that have got their result, at most one per query.
    woken: Vec<usize>,
}

impl Dns {
    pub(crate) fn new(ip: &Ip, configuration: &Configuration) -> Self {
        let servers = ip.config.as_ref().map_or(&[][..], |config| &config.nameservers);
        Self {
            queries: Slab::new(),
            client: Client::new(servers),
            hostname: configuration.hostname.clone(),
            host_address: configuration.host,
            has_static_servers: !servers.is_empty(),
            woken: Vec::new(),
        }
    }

    /// DNS servers in use.
    pub(crate) fn servers(&self) -> &[IpAddr] {
        self.client.servers()
    }

    /// Whether a query has got its result since the last call of [`take_woken`](Self::take_woken).
    #[inline]
    pub(crate) const fn has_woken(&self) -> bool {
        !self.woken.is_empty()
    }

    /// Takes a waker key of a query that has got its result.
    pub(crate) fn take_woken(&mut self) -> Option<usize> {
        self.woken.pop()
    }

    /// Receives a datagram from port 53 in a frame; returns whether it is from a server.
    pub(crate) fn receive(
        &mut self,
        source: IpAddr,
        frame: &[u8],
        ip: &mut Ip,
        phy: &mut Phy,
        now: u64,
    ) -> bool {
        let is_answer = self.servers().contains(&source);
        if is_answer {
            ip.pass_to_smoltcp(frame, SmoltcpSocket::Of(self.client.receive(frame)), phy, now);
            self.update();
        }
        is_answer
    }

    /// Polls smoltcp: its DNS client, and the clients that configure the host.
    pub(crate) fn poll(&mut self, ip: &mut Ip, link: &mut dyn Link, now: u64) {
        let Some(config) = ip.config.as_mut().filter(|config| config.next <= now) else { return };
        let leased = config.poll(now, link, self.client.set());
        if let Some(servers) = leased.filter(|_| !self.has_static_servers) {
            self.client.set_servers(&servers);
        }
        ip.learn_addresses();
        self.update();
    }

    /// Addresses of a name that needs no DNS query.
    fn known_addresses(&self, name: &str, ip: &Ip) -> Option<Addresses> {
        if let Ok(address) = name.parse() {
            return Some([address].into());
        }
        let name = normalized(name);
        if name == "localhost" || name.ends_with(".localhost") {
            return Some([Ipv6Addr::LOCALHOST.into(), Ipv4Addr::LOCALHOST.into()].into());
        }
        self.hostname.as_ref().filter(|own| normalized(own) == name).map(|_| {
            let own = ip.routes.addresses.iter().map(|own| own.address);
            let far: Addresses = own.filter(|address| !is_link_local(*address)).collect();
            // Without a network, the host's own name resolves to the loopback.
            if far.is_empty() { [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into() } else { far }
        })
    }

    /// Answer for [`HOST_NAME`], which is never sent to DNS servers: it has no meaning outside of this machine.
    fn host_addresses(&self, ip: &Ip) -> Question {
        let addresses: Addresses = match self.host_address {
            None => return Question::Failed(ResolveError::NoName),
            Some(HostAddress::Address(address)) => [address].into(),
            Some(HostAddress::Gateway) => {
                // A link-local IPv6 address would be ambiguous without a scope.
                let is_usable = |gateway: &IpAddr| gateway.is_ipv4() || !is_link_local(*gateway);
                ip.routes.gateways.iter().copied().filter(is_usable).collect()
            }
        };
        // The gateway comes with the address of a DHCP server, for which the kernel waits after this error.
        let is_awaited = ip.config.as_ref().is_some_and(|config| !config.is_configured());
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
        (ip, random, now): (&mut Ip, &mut dyn Random, u64),
    ) -> Result<QueryId, Errno> {
        if name.is_empty() || name.len() > MAX_NAME || name.bytes().any(|byte| byte <= b' ') {
            return Err(Errno::EINVAL);
        }
        self.woken.try_reserve(self.queries.slots() + 1).map_err(|_| Errno::ENOMEM)?;
        let mut parts = match self.known_addresses(name, ip) {
            Some(addresses) => [Question::Answered(addresses)].into(),
            None if normalized(name) == HOST_NAME => [self.host_addresses(ip)].into(),
            None => self.ask_servers(name, families, (ip, random, now))?,
        };
        for part in &mut parts {
            if let Question::Answered(addresses) = part {
                addresses.retain(|address| families.contains(address.is_ipv4()));
            }
        }
        let is_reported = parts.iter().all(|part| !matches!(part, Question::Asked(_)));
        let slot = self.queries.insert(Query { waker_key, parts, is_reported })?;
        Ok(QueryId(self.queries.key(slot).into_raw()))
    }

    fn ask_servers(
        &mut self,
        name: &str,
        families: Families,
        (ip, random, now): (&mut Ip, &mut dyn Random, u64),
    ) -> Result<Vec<Question>, Errno> {
        let Some(config) = &mut ip.config else {
            return Ok([Question::Failed(ResolveError::NoServer)].into());
        };
        // Identifier and source port of a query must be unpredictable, against forged answers (RFC 5452).
        config.idle.reseed(random.random(), now);
        let (client, interface) = (&mut self.client, config.idle.interface());
        let mut parts = Vec::new();
        for is_v4 in [true, false].into_iter().filter(|&is_v4| families.contains(is_v4)) {
            match client.ask(interface, name, is_v4) {
                Ok(part) => parts.push(part),
                Err(error) => {
                    parts.iter().for_each(|part| client.give_up(part));
                    return Err(error);
                }
            }
        }
        config.next = now;
        Ok(parts)
    }

    /// Updates all queries, of which there are few, and reports those that have got a result.
    fn update(&mut self) {
        for query in self.queries.iter_mut().filter(|query| !query.is_reported) {
            query.parts.iter_mut().for_each(|part| self.client.update(part));
            if !query.is_pending() {
                query.is_reported = true;
                self.woken.push(query.waker_key);
            }
        }
    }

    /// Result of a query.
    ///
    /// # Errors
    /// The reason why there are no addresses.
    pub(crate) fn resolved(&mut self, query: QueryId, ip: &Ip) -> Result<Addresses, ResolveError> {
        let slot = self.queries.slot(Key::from_raw(query.0)).map_err(|_| ResolveError::Unknown)?;
        if self.queries.get(slot).is_some_and(Query::is_pending) {
            return Err(ResolveError::Pending);
        }
        let far = ip.routes.addresses.iter().map(|own| own.address).filter(|own| !is_link_local(*own));
        let prefers_v6 = far.clone().any(|own| own.is_ipv6()) || far.count() == 0;
        let query = self.queries.remove(slot).ok_or(ResolveError::Unknown)?;
        query.result(prefers_v6)
    }

    /// Cancels a query.
    pub(crate) fn cancel(&mut self, query: QueryId) {
        let Ok(slot) = self.queries.slot(Key::from_raw(query.0)) else { return };
        if let Some(query) = self.queries.remove(slot) {
            query.parts.iter().for_each(|part| self.client.give_up(part));
        }
    }
}
