//! What the stack knows of names: name servers, search list, and the names of this machine and of its host. The kernel
//! has the resolver, which uses sockets.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hermit_interface::net::{HOST_NAME, MAX_NAMESERVERS, MAX_SEARCH_LEN};

use crate::config::{Configuration, HostAddress};
use crate::ip::config::Lease;
use crate::ip::layer::Ip;
use crate::ip::routes::is_link_local;
use crate::ip::sources::is_server_address;

/// State of the layer.
#[derive(Debug)]
pub(crate) struct Dns {
    servers: Vec<IpAddr>,
    /// Domains of the search list in the format of DNS messages.
    search: Vec<u8>,
    /// Name of this host.
    hostname: Option<String>,
    /// Address of [`HOST_NAME`].
    host_address: Option<HostAddress>,
    /// Whether there are static servers, which take precedence over those of a lease.
    has_static_servers: bool,
    /// Whether there is a static search list, likewise.
    has_static_search: bool,
}

impl Dns {
    pub(crate) fn new(ip: &Ip, configuration: &Configuration) -> Self {
        let servers = ip.config.as_ref().map_or(&[][..], |config| &config.nameservers);
        let search: Vec<u8> = configuration.search.iter().flat_map(|domain| encoded(domain)).collect();
        let mut dns = Self {
            servers: Vec::new(),
            has_static_servers: !servers.is_empty(),
            has_static_search: !search.is_empty(),
            search: Vec::new(),
            hostname: configuration.hostname.clone(),
            host_address: configuration.host,
        };
        dns.set_servers(servers);
        dns.set_search(search);
        dns
    }

    /// DNS servers in use.
    pub(crate) fn servers(&self) -> &[IpAddr] {
        &self.servers
    }

    /// Domains of the search list in the format of DNS messages, perhaps compressed within the list.
    pub(crate) fn search(&self) -> &[u8] {
        &self.search
    }

    fn set_servers(&mut self, servers: &[IpAddr]) {
        let usable = servers.iter().copied().filter(|&server| is_server_address(server));
        self.servers = usable.take(MAX_NAMESERVERS).collect();
    }

    fn set_search(&mut self, mut search: Vec<u8>) {
        search.truncate(MAX_SEARCH_LEN);
        self.search = search;
    }

    /// Applies a lease that has begun, or the end of one.
    pub(crate) fn apply(&mut self, lease: &Lease) {
        if !self.has_static_servers {
            self.set_servers(&lease.servers);
        }
        if !self.has_static_search {
            let search =
                if lease.search.is_empty() { encoded_text(&lease.domain) } else { lease.search.clone() };
            self.set_search(search);
        }
    }

    /// Addresses of a name that this machine defines; `None` of any other name.
    pub(crate) fn known_addresses(&self, name: &str, ip: &Ip) -> Option<Vec<IpAddr>> {
        let name = name.strip_suffix('.').unwrap_or(name);
        if name.eq_ignore_ascii_case(HOST_NAME) {
            return Some(self.host_addresses(ip));
        }
        self.hostname.as_ref().filter(|own| own.eq_ignore_ascii_case(name))?;
        let own = ip.routes.addresses.iter().map(|own| own.address);
        let far: Vec<IpAddr> = own.filter(|address| !is_link_local(*address)).collect();
        // Without a network, the host's own name resolves to the loopback.
        Some(if far.is_empty() {
            [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()].into()
        } else {
            far
        })
    }

    /// Addresses of [`HOST_NAME`].
    fn host_addresses(&self, ip: &Ip) -> Vec<IpAddr> {
        match self.host_address {
            None => Vec::new(),
            Some(HostAddress::Address(address)) => [address].into(),
            Some(HostAddress::Gateway) => {
                // A link-local IPv6 address would be ambiguous without a scope.
                let is_usable = |gateway: &IpAddr| gateway.is_ipv4() || !is_link_local(*gateway);
                ip.routes.gateways.iter().copied().filter(is_usable).collect()
            }
        }
    }
}

/// A domain in the format of DNS messages: labels with their lengths, and the root.
fn encoded(domain: &str) -> Vec<u8> {
    let labels = domain.split('.').filter(|label| !label.is_empty());
    let mut bytes = Vec::new();
    for label in labels {
        bytes.push(u8::try_from(label.len()).unwrap_or(u8::MAX));
        bytes.extend_from_slice(label.as_bytes());
    }
    if !bytes.is_empty() {
        bytes.push(0);
    }
    bytes
}

/// The domain of a lease (RFC 2132, section 3.17), which some servers end with a zero.
fn encoded_text(domain: &[u8]) -> Vec<u8> {
    let domain = domain.split(|&byte| byte == 0).next().unwrap_or_default();
    core::str::from_utf8(domain).map_or_else(|_| Vec::new(), encoded)
}
