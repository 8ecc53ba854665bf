//! Creates the network device and its backend from the configuration. Also serves the network of a guest
//! under QEMU ([`qemu`]).
//!
//! The backend is a tap of the host, or uhyve's own user-mode network with sockets. Before the sandbox is
//! entered, the functions here open the tap or the listeners of forwarded ports, with the privileges of the
//! user who has started uhyve. They also read the host's addresses and DNS servers, which determine the
//! egress policy. The network thread opens the sockets for the guest's connections later.
//!
//! | module | |
//! | --- | --- |
//! | [`passed`] | sockets that the starter of uhyve has opened |
//! | [`qemu`] | the command `uhyve net` |

pub mod passed;
pub mod qemu;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

use hermit_options::egress::{EgressPolicy, HostNetwork};
use hermit_options::host_network;
use hermit_options::network::MAX_USER_MTU;
use hermit_options::ports::{self, PortError};
use hermit_usernet::config::{Config, DNS_PORT};

use self::passed::PassedSocket;
use crate::config::network::{BackendConfig, InterfaceName, MacAddress, NetworkConfig, PortForward};
use crate::devices::net::backend::Backend;
use crate::devices::net::backend::tap::{Tap, TapError};
use crate::devices::net::backend::user::User;
use crate::devices::net::egress::EgressFilter;
use crate::devices::net::{Net, NetConfig};
use crate::devices::rate_limiter::RateLimiter;
use crate::host::descriptor_limit;
use crate::host::log::say;
use crate::host::random;

/// Reason why the network device cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The TAP interface cannot be used.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// A port of the host cannot be forwarded.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The MTU of the TAP interface is below the guest's minimum.
    #[error(
        "the tap {name} takes packets of {mtu} bytes, fewer than {min}: sudo ip link set {name} mtu 1500"
    )]
    SmallMtu {
        /// Name of the TAP interface.
        name: String,
        /// MTU of the interface in bytes.
        mtu: u16,
        /// Minimum MTU of the guest in bytes.
        min: u16,
    },
    /// The host has no more file descriptors or memory for sockets.
    #[error("network: sockets for the guest: {0}")]
    Sockets(io::Error),
    /// The host's addresses cannot be listed. They are needed because they are closed to the guest.
    #[error("network: the addresses of the host, which are closed to the guest: {0}")]
    HostAddresses(io::Error),
    /// The host has no more file descriptors or memory for the timer of a limited rate.
    #[error("network: a timer for the limit of the rate: {0}")]
    Timer(io::Error),
    /// getrandom(2) fails.
    #[error("the host gives no random numbers: {0}")]
    Random(#[from] rustix::io::Errno),
}

/// A network device with its backend.
#[derive(Debug)]
pub struct PreparedNetwork {
    /// The device.
    pub device: Net,
    /// File descriptor of the TAP interface, if that is the backend.
    pub tap: Option<RawFd>,
    /// True if the backend opens sockets while the guest runs.
    pub has_sockets: bool,
}

/// Opens the backend and creates the device.
///
/// # Errors
///
/// See [`NetworkError`].
pub fn create_device(
    network: &NetworkConfig,
    passed: &[PassedSocket],
) -> Result<PreparedNetwork, NetworkError> {
    match &network.backend {
        BackendConfig::Tap(name) => create_tap_device(network, name),
        BackendConfig::User(forwards) => create_user_device(network, forwards, passed),
    }
}

fn create_user_device(
    network: &NetworkConfig,
    forwards: &[PortForward],
    passed: &[PassedSocket],
) -> Result<PreparedNetwork, NetworkError> {
    let mac = mac(network)?;
    let user = open_sockets(network, (forwards, passed), mac)?;
    let device = device(network, Box::new(user), mac, user_mtu(network))?;
    Ok(PreparedNetwork { device, tap: None, has_sockets: true })
}

/// Returns the MTU in bytes for a guest with the user-mode network.
fn user_mtu(network: &NetworkConfig) -> u16 {
    network.mtu.unwrap_or(MAX_USER_MTU)
}

/// Binds the forwarded ports, and prints those that the host has chosen. Passed sockets are already bound.
fn open_sockets(
    network: &NetworkConfig,
    (forwards, passed): (&[PortForward], &[PassedSocket]),
    mac: MacAddress,
) -> Result<User, NetworkError> {
    // Each connection and each port takes a descriptor. If the limit cannot be raised, the guest has fewer
    // connections.
    descriptor_limit::raise();
    let mut bound = ports::bind(forwards)?;
    for PassedSocket { socket, guest } in passed {
        bound.add_passed(socket.try_clone().map_err(NetworkError::Sockets)?, *guest)?;
    }
    let host = host_network(network)?;
    let policy = EgressPolicy::of_sockets(&network.egress, &host);
    let mut config = user_config(network, mac, user_mtu(network), &host);
    config.tcp_ports = bound.listeners.iter().map(|(_, guest)| *guest).collect();
    config.udp_ports = bound.sockets.iter().map(|(_, guest)| *guest).collect();
    let listeners = bound.listeners.into_iter().map(|(listener, _)| listener).collect();
    let sockets = bound.sockets.into_iter().map(|(socket, _)| socket).collect();
    let user = User::new(config, listeners, sockets, policy).map_err(NetworkError::Sockets)?;
    // Printed only now, because the ports accept connections from now on.
    bound.chosen.iter().for_each(|chosen| say(format_args!("{}", ports::message(chosen))));
    Ok(user)
}

/// Returns the configuration of the user-mode network according to the options.
fn user_config(network: &NetworkConfig, mac: MacAddress, mtu: u16, host: &HostNetwork) -> Config {
    let mut config = Config::new(mac.bytes(), mtu);
    for own in network.addresses.iter().rev() {
        match own.address {
            IpAddr::V4(address) => config.guest_v4 = (address, own.prefix),
            IpAddr::V6(address) => config.guest_v6 = Some(address),
        }
    }
    for gateway in &network.gateways {
        match gateway {
            IpAddr::V4(address) => config.gateways.0 = *address,
            IpAddr::V6(address) => config.gateways.1 = *address,
        }
    }
    if !network.nameservers.is_empty() || network.egress.is_closed() {
        let is_v4 = |address: &IpAddr| if let IpAddr::V4(address) = address { Some(*address) } else { None };
        config.nameservers = network.nameservers.iter().filter_map(is_v4).collect();
    } else {
        if host.nameservers.is_empty() {
            config.nameservers.clear();
        }
        config.resolver = host.nameservers.first().map(|&server| SocketAddr::new(server, DNS_PORT));
    }
    config.search.clone_from(&network.search);
    config.hostname.clone_from(&network.hostname);
    config.has_host_loopback = network.host_loopback;
    config
}

fn create_tap_device(network: &NetworkConfig, name: &InterfaceName) -> Result<PreparedNetwork, NetworkError> {
    let policy = EgressPolicy::of_interface(&network.egress, &network.nameservers);
    let tap = Tap::open(name.as_str(), network.mtu)?.with_egress(policy.map(EgressFilter::new));
    let (mtu, min, fd) = (tap.mtu(), network.min_mtu(), tap.input());
    if mtu < min {
        return Err(NetworkError::SmallMtu { name: name.as_str().to_owned(), mtu, min });
    }
    let device = device(network, Box::new(tap), mac(network)?, mtu)?;
    Ok(PreparedNetwork { device, tap: Some(fd), has_sockets: false })
}

/// Returns the addresses and DNS servers of the host, which determine the egress policy of the user-mode
/// network.
fn host_network(network: &NetworkConfig) -> Result<HostNetwork, NetworkError> {
    // The guest uses the host's DNS servers unless the options name others. With `egress=none`, the guest may
    // not use the host's servers, so they are not read.
    let is_given = network.egress.is_closed() || !network.nameservers.is_empty();
    let nameservers = if is_given { network.nameservers.clone() } else { host_network::nameservers() };
    let addresses = host_network::addresses().map_err(NetworkError::HostAddresses)?;
    Ok(HostNetwork { addresses, nameservers })
}

/// Returns the MAC address of the guest: the configured one, or a random one.
fn mac(network: &NetworkConfig) -> Result<MacAddress, NetworkError> {
    if let Some(mac) = network.mac {
        return Ok(mac);
    }
    let mut bytes = [0; 6];
    random::fill(&mut bytes)?;
    Ok(MacAddress::local(bytes))
}

fn device(
    network: &NetworkConfig,
    backend: Box<dyn Backend>,
    mac: MacAddress,
    mtu: u16,
) -> Result<Net, NetworkError> {
    log::info!("network: address {mac}, packets of up to {mtu} bytes");
    let limiter = || RateLimiter::new(network.limits).map_err(|error| NetworkError::Timer(error.into()));
    let net = Net::new(backend, NetConfig { mac: mac.bytes(), mtu });
    Ok(net.with_limiters(limiter()?, limiter()?))
}
