//! What keeps a host on its network: smoltcp answers to ARP, neighbor discovery, pings, queries for groups and
//! router advertisements, asks DHCP servers and name servers.
//!
//! It speaks Ethernet and keeps a list of neighbors of its own. Nothing here is on the way of streams and datagrams.

mod advertisement;
mod gateway;
mod idle;
pub(crate) mod names;
mod selection;

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
use smoltcp::wire::{DhcpOption, EthernetAddress, HardwareAddress, IpCidr, Ipv4Cidr, Ipv6Cidr};

use crate::configuration::{Cidr, Configuration};
use crate::control::gateway::{Exchanging, FarGateway};
use crate::control::idle::Idle;
use crate::control::names::Names;
use crate::control::selection::{Selection, link_local};
use crate::core::instant;
use crate::hardware::{HardwareInfo, LEAST_MTU};
use crate::link::Link;
use crate::network::sources::is_host_address;
use crate::wire::device::{Egress, Ingress};
use crate::wire::emit::ETHERNET;

/// The DHCP option with the host's name (RFC 2132, section 3.14).
const HOST_NAME: u8 = 12;

/// How often smoltcp is looked after while something is going on of which it does not tell when, and else.
const LIVELY: u64 = 250_000_000;
const QUIET: u64 = 30_000_000_000;

/// How long something is going on: the solicitations of routers, or the answers to a query for groups.
const EPISODE: u64 = 13_000_000_000;

/// Who takes a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taker {
    /// smoltcp itself.
    Nobody,
    /// The client of the DHCP server.
    Dhcp,
    /// The client of the name servers.
    Names,
}

/// smoltcp's interface with all of this.
pub(crate) struct Control {
    interface: Interface,
    pub(crate) idle: Idle,
    capabilities: DeviceCapabilities,
    dhcp: Option<(SocketSet<'static>, SocketHandle)>,
    pub(crate) names: Names,
    /// What was configured, which goes before what servers say.
    gateways: Vec<IpAddr>,
    has_static_names: bool,
    /// What was configured and is not used.
    pub(crate) ignored: Vec<IpAddr>,
    carries_v6: bool,
    is_configured: bool,
    /// The gateway of IPv4, if it is in no network of ours.
    far: Option<FarGateway>,
    lively_until: u64,
    /// When routers had last changed addresses when those were last read; `None` if a server has said something since.
    seen: Option<Instant>,
    /// When it is to be looked after next.
    pub(crate) next: u64,
}

impl fmt::Debug for Control {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Control").field("addresses", &self.interface.ip_addrs()).finish_non_exhaustive()
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

/// The client of a DHCP server, which learns the host's name.
fn dhcp_client(hostname: Option<String>) -> (SocketSet<'static>, SocketHandle) {
    let mut socket = dhcpv4::Socket::new();
    let mut retry = RetryConfig::default();
    // Servers are near: what is lost is asked for again soon.
    retry.discover_timeout = Duration::from_secs(2);
    retry.initial_request_timeout = Duration::from_secs(1);
    socket.set_retry_config(retry);
    if let Some(name) = hostname.filter(|name| !name.is_empty() && name.len() < 64) {
        // It is kept for good, as the stack is; smoltcp only borrows it.
        let data: &'static [u8] = Box::leak(name.into_bytes().into_boxed_slice());
        let options: &'static [DhcpOption<'static>] =
            Box::leak(Box::new([DhcpOption { kind: HOST_NAME, data }]));
        socket.set_outgoing_options(options);
    }
    let mut set = SocketSet::new(vec![SocketStorage::EMPTY]);
    let handle = set.add(socket);
    (set, handle)
}

impl Control {
    pub(crate) fn new(info: &HardwareInfo, seed: u64, configuration: &Configuration, now: u64) -> Self {
        let mac = EthernetAddress(info.mac);
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = usize::from(info.mtu.max(LEAST_MTU)) + ETHERNET;
        // They have been verified before.
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
                // There is room for as many.
                let _ = addresses.push(to_smoltcp(cidr));
            }
        });
        let dhcp = (!has_v4).then(|| dhcp_client(configuration.hostname.clone()));
        let mut control = Self {
            interface,
            idle: Idle::new(seed, now),
            capabilities,
            // Who has an address waits for no other: a server is asked beside that.
            is_configured: dhcp.is_none() || !own.is_empty(),
            dhcp,
            names: Names::new(&nameservers),
            gateways,
            has_static_names: !nameservers.is_empty(),
            ignored,
            carries_v6: info.carries_v6(),
            far: None,
            lively_until: now.saturating_add(EPISODE),
            seen: None,
            next: now,
        };
        control.set_static_routes();
        control
    }

    fn static_gateway(&self, is_v4: bool) -> Option<IpAddr> {
        self.gateways.iter().copied().find(|gateway| gateway.is_ipv4() == is_v4)
    }

    fn set_static_routes(&mut self) {
        self.set_gateway_v4(None);
        // The table has room for both.
        if let Some(IpAddr::V6(gateway)) = self.static_gateway(false) {
            let _ = self.interface.routes_mut().add_default_ipv6_route(gateway);
        }
    }

    /// Takes the gateway that was configured, or else that of a lease. The addresses are those that we have.
    fn set_gateway_v4(&mut self, leased: Option<Ipv4Addr>) {
        let gateway = match self.static_gateway(true) {
            Some(IpAddr::V4(gateway)) => Some(gateway),
            _ => leased,
        };
        self.interface.routes_mut().remove_default_ipv4_route();
        let Some(gateway) = gateway else { return };
        let own: Vec<Ipv4Cidr> = self.addresses_v4().collect();
        let is_far = !own.iter().any(|own| own.contains_addr(&gateway));
        self.far = own.first().filter(|_| is_far).map(|&own| FarGateway::new(own, gateway));
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

    /// Whether addresses or gateways may have changed since this was last asked.
    pub(crate) fn has_news(&mut self) -> bool {
        let now = Some(self.interface.slaac_updated_at());
        core::mem::replace(&mut self.seen, now) != now
    }

    /// The addresses of the host: those that reach far before that of the link.
    pub(crate) fn addresses(&self) -> Vec<Cidr> {
        let told = |own: &IpCidr| match self.far {
            Some(far) if *own == IpCidr::Ipv4(far.network()) => of_smoltcp(&IpCidr::Ipv4(far.own())),
            _ => of_smoltcp(own),
        };
        self.interface.ip_addrs().iter().map(told).collect()
    }

    /// The gateways.
    pub(crate) fn gateways(&mut self) -> Vec<IpAddr> {
        let (mut gateways, far) = (self.gateways.clone(), self.far);
        self.interface.routes_mut().update(|routes| {
            gateways.extend(routes.iter().filter(|route| route.cidr.prefix_len() == 0).map(|route| {
                let gateway: IpAddr = route.via_router.into();
                far.filter(|far| gateway == far.alias()).map_or(gateway, |far| far.address().into())
            }));
        });
        let mut seen = Vec::new();
        gateways.retain(|gateway| {
            let is_new = !seen.contains(gateway);
            seen.push(*gateway);
            is_new
        });
        gateways
    }

    /// Whether there is nothing left to wait for.
    pub(crate) const fn is_configured(&self) -> bool {
        self.is_configured
    }

    /// Takes a frame. `reply` is empty then, or the answer: a frame as well.
    pub(crate) fn receive(&mut self, now: u64, frame: &[u8], taker: Taker, reply: &mut Vec<u8>) {
        reply.clear();
        let mut nobody: [SocketStorage<'_>; 0] = [];
        let other = self.far.and_then(|far| far.incoming(frame));
        let Some(frame) = advertisement::purged(other.as_deref().unwrap_or(frame)) else { return };
        let frame = &*frame;
        let mut device = Ingress { packet: Some(frame), reply, capabilities: &self.capabilities };
        let interface = &mut self.interface;
        match (taker, &mut self.dhcp) {
            (Taker::Dhcp, Some((set, _))) => interface.poll_ingress_single(instant(now), &mut device, set),
            (Taker::Names, _) => {
                interface.poll_ingress_single(instant(now), &mut device, self.names.receive(frame))
            }
            _ => {
                let mut set = SocketSet::new(&mut nobody[..]);
                interface.poll_ingress_single(instant(now), &mut device, &mut set)
            }
        };
        if let Some(far) = self.far {
            far.outgoing(reply);
        }
        if taker != Taker::Nobody {
            self.next = now;
        }
    }

    /// Something begins of which smoltcp does not tell when it goes on.
    pub(crate) fn enliven(&mut self, now: u64) {
        self.lively_until = now.saturating_add(EPISODE);
        self.next = now;
    }

    /// Transmits what there is.
    pub(crate) fn poll(&mut self, now: u64, link: &mut dyn Link) {
        let time = instant(now);
        self.interface.poll_maintenance(time);
        let mut link = Exchanging { link, gateway: self.far };
        let mut device = Egress { link: &mut link, capabilities: &self.capabilities };
        let mut due: Option<Instant> = None;
        let mut messages = 32;
        for set in self.dhcp.as_mut().map(|(set, _)| set).into_iter().chain([self.names.set()]) {
            let mut has_sent = || self.interface.poll_egress(time, &mut device, set) != PollResult::None;
            // A few at most: each is a message to a server.
            while has_sent() && messages > 0 {
                messages -= 1;
            }
            due = [due, self.idle.interface().poll_at(time, set)].into_iter().flatten().min();
        }
        let tick = if now < self.lively_until { LIVELY } else { QUIET };
        let due = due.map_or(u64::MAX, crate::core::nanoseconds);
        // What is overdue waits for a neighbor, or for room.
        self.next = due.max(now.saturating_add(1_000_000)).min(now.saturating_add(tick));
        self.apply_lease();
    }

    /// Does what the DHCP server says.
    fn apply_lease(&mut self) {
        let Some((set, handle)) = &mut self.dhcp else { return };
        let Some(event) = set.get_mut::<dhcpv4::Socket<'_>>(*handle).poll() else { return };
        let (lease, router, servers) = match event {
            Event::Deconfigured => (None, None, Vec::new()),
            Event::Configured(config) => {
                let servers = config.dns_servers.iter().map(|&server| server.into()).collect();
                (Some(config.address), config.router, servers)
            }
        };
        let lease = lease.filter(|lease| is_host_address(lease.address().into()));
        self.seen = None;
        self.far = None;
        self.interface.update_ip_addrs(|addresses| {
            // No other is of IPv4.
            addresses.retain(|own| matches!(own, IpCidr::Ipv6(_)));
            if let Some(lease) = lease {
                let _ = addresses.insert(0, IpCidr::Ipv4(lease));
            }
        });
        self.set_gateway_v4(router.filter(|&router| is_host_address(router.into())));
        if !self.has_static_names {
            self.names.set_servers(&servers);
        }
        self.is_configured |= lease.is_some();
    }

    /// Tells the network that a group is joined.
    pub(crate) fn join(&mut self, group: IpAddr, now: u64) -> bool {
        let has_joined =
            (group.is_ipv4() || self.carries_v6) && self.interface.join_multicast_group(group).is_ok();
        self.next = now;
        has_joined
    }

    /// Tells the network that a group is left.
    pub(crate) fn leave(&mut self, group: IpAddr, now: u64) {
        let _ = self.interface.leave_multicast_group(group);
        self.next = now;
    }

    /// Whether packets to a group are received.
    pub(crate) fn has_group(&self, group: IpAddr) -> bool {
        self.interface.has_multicast_group(group)
    }
}
