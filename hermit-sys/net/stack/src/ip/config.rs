//! Host configuration by smoltcp: the DHCP client, SLAAC, and responses to ARP, neighbor discovery, pings,
//! and IGMP or MLD queries.
//!
//! [`HostConfig`] contains smoltcp's interface and its DHCP socket. `ip` passes frames of these protocols to
//! it one by one, and sends its answers. It is also polled for its timers, such as the renewal of a lease.
//! The results are the addresses and gateways of this host, which `routes` copies after each change. smoltcp
//! has a neighbor table of its own for these frames. TCP and UDP do not pass through smoltcp.

mod advertisement;
mod gateway;
mod idle;
mod selection;

pub(crate) use self::selection::Nameservers;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr};

use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet, SocketStorage};
use smoltcp::phy::{Checksum, DeviceCapabilities, Medium};
use smoltcp::socket::dhcpv4::{self, Event, RetryConfig};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{DhcpOption, DhcpPacket, EthernetAddress, HardwareAddress, IpCidr, Ipv4Cidr, Ipv6Cidr};

use crate::config::{Cidr, Configuration};
use crate::dns::Search;
use crate::ip::config::gateway::{Exchanging, FarGateway};
use crate::ip::config::idle::Idle;
use crate::ip::config::selection::{Selection, StaticGateways, link_local};
use crate::ip::routes::{Addresses, Gateways};
use crate::ip::sources::{is_host_address, is_server_address};
use crate::phy::device::{MIN_MTU, NetDeviceInfo};
use crate::phy::tx_queue::Link;
use crate::wire::emit::ETHERNET;
use crate::wire::smoltcp_device::{Egress, Ingress, instant, nanoseconds, scratch};

/// DHCP option with the host name (RFC 2132, section 3.14).
const HOST_NAME: u8 = 12;

/// DHCP options: domain of the host (RFC 2132, section 3.17), and search list (RFC 3397).
const DOMAIN_NAME: u8 = 15;
const DOMAIN_SEARCH: u8 = 119;

/// Requested DHCP options: subnet mask, router, name servers, and the domains.
const REQUESTED: &[u8] = &[1, 3, 6, DOMAIN_NAME, DOMAIN_SEARCH];

/// Size in bytes of the buffer for a DHCP message. Options beyond it are not read.
const DHCP_BUFFER_SIZE: usize = 1500;

/// Intervals in nanoseconds at which smoltcp is polled: during a fast-poll window, and otherwise. In the
/// window smoltcp has work without reporting a deadline.
const FAST_POLL_INTERVAL: u64 = 250_000_000;
const IDLE_POLL_INTERVAL: u64 = 30_000_000_000;

/// Length of a fast-poll window in nanoseconds: it covers router solicitations, and responses to IGMP or MLD
/// queries.
const FAST_POLL_WINDOW: u64 = 13_000_000_000;

/// Socket of smoltcp that receives a frame.
pub(crate) enum SmoltcpSocket {
    /// No socket: the interface itself.
    None,
    /// The DHCP client.
    Dhcp,
}

/// Name configuration of a lease; empty if the lease has ended.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    /// Name servers.
    pub(crate) servers: Nameservers,
    /// Search list in the format of DNS messages.
    pub(crate) search: Search,
}

impl Lease {
    fn new(config: &dhcpv4::Config<'_>) -> Self {
        let mut lease = Self::default();
        for &server in config.dns_servers.iter().filter(|server| is_server_address((**server).into())) {
            // Servers beyond the capacity are not used.
            let _ = lease.servers.push(server.into());
        }
        let options = || config.packet.iter().flat_map(DhcpPacket::options);
        for option in options().filter(|option| option.kind == DOMAIN_SEARCH) {
            // A long list is split over several options (RFC 3396).
            lease.search.push_encoded(option.data);
        }
        let domain = options().find(|option| option.kind == DOMAIN_NAME);
        if let Some(domain) = domain.filter(|_| lease.search.is_empty()) {
            lease.search.push_text(domain.data);
        }
        lease
    }
}

/// smoltcp's interface, its sockets, and the configuration.
pub(crate) struct HostConfig {
    interface: Interface,
    pub(crate) idle: Idle,
    capabilities: DeviceCapabilities,
    /// Buffer for frames that the device has no room for.
    scratch: Vec<u8>,
    dhcp: Option<(SocketSet<'static>, SocketHandle)>,
    /// Static gateways, which take precedence over gateways from servers.
    gateways: StaticGateways,
    /// Static DNS servers.
    pub(crate) nameservers: Nameservers,
    /// Ignored addresses of the static configuration.
    pub(crate) ignored: Vec<IpAddr>,
    carries_v6: bool,
    is_configured: bool,
    /// The IPv4 gateway, if it is off-link.
    far: Option<FarGateway>,
    fast_poll_until: u64,
    /// Time of the last change by SLAAC that [`has_news`](Self::has_news) has reported; `None` after a change
    /// by DHCP.
    seen: Option<Instant>,
    /// Time in nanoseconds of the next poll.
    pub(crate) next: u64,
}

impl fmt::Debug for HostConfig {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("HostConfig").field("addresses", &self.interface.ip_addrs()).finish_non_exhaustive()
    }
}

fn to_smoltcp(cidr: &Cidr) -> IpCidr {
    match cidr.address {
        IpAddr::V4(address) => IpCidr::Ipv4(Ipv4Cidr::new(address, cidr.prefix.min(32))),
        IpAddr::V6(address) => IpCidr::Ipv6(Ipv6Cidr::new(address, cidr.prefix.min(128))),
    }
}

fn of_smoltcp(cidr: &IpCidr) -> Cidr {
    Cidr { address: cidr.address().into(), prefix: cidr.prefix_len() }
}

/// Creates the DHCP client, which sends the host name.
fn dhcp_client(hostname: Option<String>) -> (SocketSet<'static>, SocketHandle) {
    let mut socket = dhcpv4::Socket::new();
    let mut retry = RetryConfig::default();
    // Servers are near, so lost messages are retransmitted soon.
    retry.discover_timeout = Duration::from_secs(2);
    retry.initial_request_timeout = Duration::from_secs(1);
    socket.set_retry_config(retry);
    // smoltcp borrows the buffer for the life of the stack, which is never dropped.
    socket.set_receive_packet_buffer(Box::leak(vec![0; DHCP_BUFFER_SIZE].into_boxed_slice()));
    socket.set_parameter_request_list(REQUESTED);
    if let Some(name) = hostname.filter(|name| !name.is_empty() && name.len() < 64) {
        // smoltcp borrows the options for the life of the stack, which is never dropped.
        let data: &'static [u8] = Box::leak(name.into_bytes().into_boxed_slice());
        let options: &'static [DhcpOption<'static>] =
            Box::leak(Box::new([DhcpOption { kind: HOST_NAME, data }]));
        socket.set_outgoing_options(options);
    }
    let mut set = SocketSet::new(vec![SocketStorage::EMPTY]);
    let handle = set.add(socket);
    (set, handle)
}

impl HostConfig {
    pub(crate) fn new(info: &NetDeviceInfo, seed: u64, configuration: &Configuration, now: u64) -> Self {
        let mac = EthernetAddress(info.mac);
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = usize::from(info.mtu.max(MIN_MTU)) + ETHERNET;
        // Received checksums have been verified before.
        capabilities.checksum.tcp = Checksum::Tx;
        capabilities.checksum.udp = Checksum::Tx;
        let Selection { addresses: own, gateways, nameservers, ignored } = Selection::of(configuration, info);
        let has_v4 = own.iter().any(|own| own.address.is_ipv4());
        let mut config = Config::new(HardwareAddress::Ethernet(mac));
        config.random_seed = seed;
        config.slaac = info.carries_v6() && !own.iter().any(|own| own.address.is_ipv6());
        let mut nothing = Ingress { packet: None, reply: &mut Vec::new(), capabilities: &capabilities };
        let mut interface = Interface::new(config, &mut nothing, instant(now));
        interface.update_ip_addrs(|addresses| {
            for cidr in own.iter().chain(&info.carries_v6().then(|| link_local(mac))) {
                // `Selection` limits the number to the capacity.
                let _ = addresses.push(to_smoltcp(cidr));
            }
        });
        let dhcp = (!has_v4).then(|| dhcp_client(configuration.hostname.clone()));
        let mut config = Self {
            interface,
            idle: Idle::new(seed, now),
            capabilities,
            scratch: scratch(),
            // A host with a static address does not wait for a lease, even if DHCP runs.
            is_configured: dhcp.is_none() || !own.is_empty(),
            dhcp,
            gateways,
            nameservers,
            ignored,
            carries_v6: info.carries_v6(),
            far: None,
            fast_poll_until: now.saturating_add(FAST_POLL_WINDOW),
            seen: None,
            next: now,
        };
        config.set_static_routes();
        config
    }

    fn static_gateway(&self, is_v4: bool) -> Option<IpAddr> {
        self.gateways.iter().copied().find(|gateway| gateway.is_ipv4() == is_v4)
    }

    fn set_static_routes(&mut self) {
        self.set_gateway_v4(None);
        // The table has room for both default routes.
        if let Some(IpAddr::V6(gateway)) = self.static_gateway(false) {
            let _ = self.interface.routes_mut().add_default_ipv6_route(gateway);
        }
    }

    /// Sets the IPv4 gateway: the static one, or otherwise the gateway of a lease.
    fn set_gateway_v4(&mut self, leased: Option<Ipv4Addr>) {
        let gateway = match self.static_gateway(true) {
            Some(IpAddr::V4(gateway)) => Some(gateway),
            _ => leased,
        };
        self.interface.routes_mut().remove_default_ipv4_route();
        let Some(gateway) = gateway else { return };
        let is_far = !self.addresses_v4().any(|own| own.contains_addr(&gateway));
        let own = self.addresses_v4().next().filter(|_| is_far);
        self.far = own.map(|own| FarGateway::new(own, gateway));
        if let Some(far) = self.far {
            self.interface.update_ip_addrs(|addresses| {
                let own = addresses.iter_mut().filter(|own| **own == IpCidr::Ipv4(far.own()));
                own.for_each(|own| *own = IpCidr::Ipv4(far.network()));
            });
        }
        let next = self.far.map_or(gateway, |far| far.alias());
        let _ = self.interface.routes_mut().add_default_ipv4_route(next);
    }

    fn addresses_v4(&self) -> impl Iterator<Item = Ipv4Cidr> {
        self.interface.ip_addrs().iter().filter_map(|own| match own {
            IpCidr::Ipv4(own) => Some(*own),
            IpCidr::Ipv6(_) => None,
        })
    }

    /// True if addresses or gateways may have changed since the last call.
    pub(crate) fn has_news(&mut self) -> bool {
        let now = Some(self.interface.slaac_updated_at());
        core::mem::replace(&mut self.seen, now) != now
    }

    /// Addresses of the host: addresses of global scope before the link-local one.
    pub(crate) fn addresses(&self) -> Addresses {
        let presented = |own: &IpCidr| match self.far {
            Some(far) if *own == IpCidr::Ipv4(far.network()) => of_smoltcp(&IpCidr::Ipv4(far.own())),
            _ => of_smoltcp(own),
        };
        self.interface.ip_addrs().iter().map(presented).collect()
    }

    /// Gateways of both IP versions.
    pub(crate) fn gateways(&mut self) -> Gateways {
        let (mut gateways, far) = (Gateways::new(), self.far);
        let mut add = |gateway: IpAddr| {
            if !gateways.contains(&gateway) {
                // The capacity suffices for all gateways.
                let _ = gateways.push(gateway);
            }
        };
        self.gateways.iter().copied().for_each(&mut add);
        self.interface.routes_mut().update(|routes| {
            for route in routes.iter().filter(|route| route.cidr.prefix_len() == 0) {
                let gateway: IpAddr = route.via_router.into();
                add(far.filter(|far| gateway == far.alias()).map_or(gateway, |far| far.address().into()));
            }
        });
        gateways
    }

    /// True if automatic configuration has completed.
    pub(crate) const fn is_configured(&self) -> bool {
        self.is_configured
    }

    /// Receives a frame. Sets `reply` to the answer frame, or clears it.
    pub(crate) fn receive(&mut self, now: u64, frame: &[u8], target: SmoltcpSocket, reply: &mut Vec<u8>) {
        reply.clear();
        let mut no_sockets: [SocketStorage<'_>; 0] = [];
        // smoltcp knows an off-link gateway only by its alias.
        let other = self.far.and_then(|far| far.incoming(frame));
        let Some(frame) = advertisement::filtered(other.as_deref().unwrap_or(frame)) else { return };
        let frame = &*frame;
        let mut device = Ingress { packet: Some(frame), reply, capabilities: &self.capabilities };
        let interface = &mut self.interface;
        let is_for_socket = !matches!(target, SmoltcpSocket::None);
        match (target, &mut self.dhcp) {
            (SmoltcpSocket::Dhcp, Some((set, _))) => {
                interface.poll_ingress_single(instant(now), &mut device, set)
            }
            _ => {
                let mut set = SocketSet::new(&mut no_sockets[..]);
                interface.poll_ingress_single(instant(now), &mut device, &mut set)
            }
        };
        if let Some(far) = self.far {
            far.outgoing(reply);
        }
        // The DHCP client may have to answer at once.
        if is_for_socket {
            self.next = now;
        }
    }

    /// Starts a fast-poll window.
    pub(crate) fn start_fast_poll(&mut self, now: u64) {
        self.fast_poll_until = now.saturating_add(FAST_POLL_WINDOW);
        self.next = now;
    }

    /// Polls smoltcp, and transmits its frames. Returns the name configuration if a lease has begun or ended.
    pub(crate) fn poll(&mut self, now: u64, link: &mut dyn Link) -> Option<Lease> {
        let time = instant(now);
        self.interface.poll_maintenance(time);
        let mut link = Exchanging { link, gateway: self.far };
        let scratch = &mut self.scratch;
        let mut device = Egress { link: &mut link, capabilities: &self.capabilities, scratch };
        let mut no_sockets = SocketSet::new(Vec::new());
        let set = self.dhcp.as_mut().map_or(&mut no_sockets, |(set, _)| set);
        let mut has_sent = || self.interface.poll_egress(time, &mut device, set) != PollResult::None;
        let mut messages = 32;
        // The loop is bounded, since each frame is a message to a server.
        while has_sent() && messages > 0 {
            messages -= 1;
        }
        let due: Option<Instant> = self.idle.interface().poll_at(time, set);
        let tick = if now < self.fast_poll_until { FAST_POLL_INTERVAL } else { IDLE_POLL_INTERVAL };
        let due = due.map_or(u64::MAX, nanoseconds);
        // An overdue deadline means that smoltcp waits for a neighbor or for room. Polling it again at once
        // would be a busy loop.
        self.next = due.max(now.saturating_add(1_000_000)).min(now.saturating_add(tick));
        self.apply_lease()
    }

    /// Applies the events of the DHCP client; returns the name configuration if a lease has begun or ended.
    fn apply_lease(&mut self) -> Option<Lease> {
        let (set, handle) = self.dhcp.as_mut()?;
        let event = set.get_mut::<dhcpv4::Socket<'_>>(*handle).poll()?;
        let (lease, router, names) = match event {
            Event::Deconfigured => (None, None, Lease::default()),
            Event::Configured(config) => (Some(config.address), config.router, Lease::new(&config)),
        };
        let lease = lease.filter(|lease| is_host_address(lease.address().into()));
        self.seen = None;
        self.far = None;
        self.interface.update_ip_addrs(|addresses| {
            // DHCP runs only without a static IPv4 address.
            addresses.retain(|own| matches!(own, IpCidr::Ipv6(_)));
            if let Some(lease) = lease {
                let _ = addresses.insert(0, IpCidr::Ipv4(lease));
            }
        });
        self.set_gateway_v4(router.filter(|&router| is_host_address(router.into())));
        self.is_configured |= lease.is_some();
        Some(names)
    }

    /// Joins a group by IGMP or MLD; returns true if smoltcp has accepted it.
    pub(crate) fn join(&mut self, group: IpAddr, now: u64) -> bool {
        let has_joined =
            (group.is_ipv4() || self.carries_v6) && self.interface.join_multicast_group(group).is_ok();
        self.next = now;
        has_joined
    }

    /// Leaves a group by IGMP or MLD.
    pub(crate) fn leave(&mut self, group: IpAddr, now: u64) {
        let _ = self.interface.leave_multicast_group(group);
        self.next = now;
    }

    /// True if smoltcp has joined a group.
    pub(crate) fn has_group(&self, group: IpAddr) -> bool {
        self.interface.has_multicast_group(group)
    }
}
