//! How the stack is to be set up, and how it is.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

/// An address and the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// Bits of the network's prefix.
    pub prefix: u8,
}

/// Address of the host of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAddress {
    /// That of the gateway, of each IP version.
    Gateway,
    /// This address.
    Address(IpAddr),
}

/// What the stack is told. The default asks a DHCP server and the routers for everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Static addresses: 7, or 6 if none is of IPv4. With one of IPv4, no DHCP server is asked; with one of IPv6, no router
    /// is.
    pub addresses: Vec<Cidr>,
    /// Gateways: the first of each version is used, and goes before what servers say.
    pub gateways: Vec<IpAddr>,
    /// Name servers, 4 at most; if there are any, those of a DHCP server are not used.
    pub nameservers: Vec<IpAddr>,
    /// The host's name: told to the DHCP server, and resolved to the host's own addresses.
    pub hostname: Option<String>,
    /// Address of [`HOST_NAME`](hermit_interface::net::HOST_NAME), which has none otherwise.
    pub host: Option<HostAddress>,
    /// Most bytes of all buffers of all sockets together. 0: 16 MiB.
    pub buffers: usize,
}

/// How the stack is set up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// Whether there is a device.
    pub has_hardware: bool,
    /// The device's addresses; not those of the loopback.
    pub addresses: Vec<Cidr>,
    /// The gateways.
    pub gateways: Vec<IpAddr>,
    /// The name servers.
    pub nameservers: Vec<IpAddr>,
    /// What is not used of the addresses, gateways and name servers of the [`Configuration`].
    pub ignored: Vec<IpAddr>,
}
