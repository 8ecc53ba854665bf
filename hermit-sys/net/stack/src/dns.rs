//! Names: name servers, search list, and the names of this machine and of its host. The resolver itself is in
//! the kernel, and uses sockets.

mod search;

use alloc::string::String;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermit_interface::net::HOST_NAME;
use smoltcp::config::{IFACE_MAX_ADDR_COUNT, IFACE_MAX_ROUTE_COUNT};

use crate::config::{Configuration, HostAddress};
use crate::ip::config::{Lease, Nameservers};
use crate::ip::layer::Ip;
use crate::ip::routes::{Gateways, is_link_local};

pub(crate) use self::search::Search;

/// Addresses of a name that this machine defines: its own, or its gateways.
pub type KnownAddresses = Gateways;

const _: () =
    assert!(IFACE_MAX_ADDR_COUNT <= 2 + IFACE_MAX_ROUTE_COUNT, "there is room for all own addresses");

/// State of the layer.
#[derive(Debug)]
pub(crate) struct Dns {
    servers: Nameservers,
    search: Search,
    /// Name of this host.
    hostname: Option<String>,
    /// Address of [`HOST_NAME`].
    host_address: Option<HostAddress>,
    /// True if there are static servers, which take precedence over the servers of a lease.
    has_static_servers: bool,
    /// True if there is a static search list, which takes precedence over the list of a lease.
    has_static_search: bool,
}

impl Dns {
    pub(crate) fn new(ip: &Ip, configuration: &Configuration) -> Self {
        let servers = ip.config.as_ref().map_or_else(Nameservers::new, |config| config.nameservers.clone());
        let mut search = Search::default();
        configuration.search.iter().for_each(|domain| search.push_domain(domain));
        Self {
            has_static_servers: !servers.is_empty(),
            has_static_search: !search.is_empty(),
            servers,
            search,
            hostname: configuration.hostname.clone(),
            host_address: configuration.host,
        }
    }

    /// DNS servers in use.
    pub(crate) fn servers(&self) -> &[IpAddr] {
        &self.servers
    }

    /// Domains of the search list in the format of DNS messages. The domains may be compressed within the
    /// list.
    pub(crate) fn search(&self) -> &[u8] {
        &self.search
    }

    /// Applies a new lease, or the end of a lease.
    pub(crate) fn apply(&mut self, lease: Lease) {
        if !self.has_static_servers {
            self.servers = lease.servers;
        }
        if !self.has_static_search {
            self.search = lease.search;
        }
    }

    /// Returns the addresses of a name that this machine defines; `None` for any other name.
    pub(crate) fn known_addresses(&self, name: &str, ip: &Ip) -> Option<KnownAddresses> {
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.eq_ignore_ascii_case(HOST_NAME) {
            return Some(self.host_addresses(ip));
        }
        self.hostname.as_ref().filter(|own| own.eq_ignore_ascii_case(name))?;
        let own = ip.routes.addresses.iter().map(|own| own.address);
        let far: KnownAddresses = own.filter(|address| !is_link_local(*address)).collect();
        // Without a network, the host's own name resolves to the loopback.
        let loopback = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        Some(if far.is_empty() { loopback.into_iter().collect() } else { far })
    }

    /// Addresses of [`HOST_NAME`].
    fn host_addresses(&self, ip: &Ip) -> KnownAddresses {
        match self.host_address {
            None => KnownAddresses::new(),
            Some(HostAddress::Address(address)) => [address].into_iter().collect(),
            Some(HostAddress::Gateway) => {
                // A link-local IPv6 address would be ambiguous without a scope.
                let is_usable = |gateway: &IpAddr| gateway.is_ipv4() || !is_link_local(*gateway);
                ip.routes.gateways.iter().copied().filter(is_usable).collect()
            }
        }
    }
}
