//! Configuration of the stack.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use hermit_interface::net::CongestionControl;

/// An address with the prefix length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// Prefix length in bits.
    pub prefix: u8,
}

/// Address of the host of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAddress {
    /// The address of the gateway, of each IP version.
    Gateway,
    /// An address of its own.
    Address(IpAddr),
}

/// Static configuration. The default uses DHCP and SLAAC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    /// Static addresses, at most 7, or 6 without an IPv4 address. An IPv4 address disables DHCP, an IPv6
    /// address SLAAC.
    pub addresses: Vec<Cidr>,
    /// Gateways: the first of each version is used, and takes precedence over gateways from servers.
    pub gateways: Vec<IpAddr>,
    /// Name servers, at most 4. If there are any, the servers of a lease are ignored.
    pub nameservers: Vec<IpAddr>,
    /// Domains that complete names. If there are any, the domains of a lease are ignored.
    pub search: Vec<String>,
    /// Host name: sent to the DHCP server, and resolved to the host's own addresses.
    pub hostname: Option<String>,
    /// Address of [`HOST_NAME`](hermit_interface::net::HOST_NAME). Without it, the name has no address.
    pub host: Option<HostAddress>,
    /// Maximum total size in bytes of the buffers of all sockets. 0: 16 MiB.
    pub buffers: usize,
    /// Default congestion control of connections.
    pub congestion: CongestionControl,
    /// Number of shards that TCP connections are distributed to, 128 at most. 0: one.
    pub shards: u32,
}

/// Current configuration of the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status<'a> {
    /// True if there is a network device.
    pub has_device: bool,
    /// Addresses of the device, without the loopback.
    pub addresses: &'a [Cidr],
    /// The gateways.
    pub gateways: &'a [IpAddr],
    /// The name servers.
    pub nameservers: &'a [IpAddr],
    /// Addresses, gateways and name servers of the [`Configuration`] that are ignored.
    pub ignored: &'a [IpAddr],
}
