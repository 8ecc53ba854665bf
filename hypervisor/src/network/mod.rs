//! Creation of the network device and its backend from the configuration.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;

use hermit_interface::command_line::{Encoder, HostAddress, Ip};
use hermit_options::egress::{EgressPolicy, HostNetwork};
use hermit_options::host_network;
use hermit_options::passt::{self, DNS_FORWARD, MAX_MTU, PasstError, PasstStartup};
use hermit_options::ports::{self, PortError};
use hermit_usernet::config::{Config, DNS_PORT};

use crate::config::network::{BackendConfig, InterfaceName, MacAddress, NetworkConfig, PortForward};
use crate::descriptor_limit;
use crate::devices::net::backend::Backend;
use crate::devices::net::backend::passt::Passt;
use crate::devices::net::backend::tap::{Tap, TapError};
use crate::devices::net::backend::user::User;
use crate::devices::net::egress::EgressFilter;
use crate::devices::net::{Net, NetConfig};
use crate::devices::rate_limiter::RateLimiter;
use crate::log::say;
use crate::random;

/// Reason for which the network device cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The TAP interface cannot be used.
    #[error(transparent)]
    Tap(#[from] TapError),
    /// passt cannot be used.
    #[error(transparent)]
    Passt(#[from] PasstError),
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
    /// The host does not list its addresses, which are closed to the guest.
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
    /// passt process of the backend, which may still initialise itself.
    pub starting: Option<StartingPasst>,
}

/// passt during its initialisation, and the ports that it forwards.
#[derive(Debug)]
pub struct StartingPasst {
    startup: PasstStartup,
    forwards: Vec<PortForward>,
    /// Those of the forwards whose port of the host was chosen.
    chosen: Vec<PortForward>,
}

impl StartingPasst {
    /// Waits until passt listens at its ports, and prints those that were chosen.
    ///
    /// # Errors
    ///
    /// passt is not installed, or has exited; another program has taken a port.
    pub fn finish(self) -> Result<(), NetworkError> {
        let users = self.startup.finish()?;
        ports::verify(&self.forwards, &users)?;
        self.chosen.iter().for_each(|chosen| say(format_args!("{}", ports::message(chosen))));
        Ok(())
    }
}

/// Opens the backend and creates the device.
///
/// # Errors
///
/// See [`NetworkError`].
pub fn create_device(network: &NetworkConfig) -> Result<PreparedNetwork, NetworkError> {
    match &network.backend {
        BackendConfig::Tap(name) => create_tap_device(network, name),
        BackendConfig::User(forwards) => create_user_device(network, forwards),
        BackendConfig::Passt(forwards) => create_passt_device(network, forwards),
    }
}

fn create_user_device(
    network: &NetworkConfig,
    forwards: &[PortForward],
) -> Result<PreparedNetwork, NetworkError> {
    let mtu = network.mtu.unwrap_or(MAX_MTU);
    let mac = mac(network)?;
    let mut bound = ports::bind(&mut forwards.to_vec())?;
    // The gateway is not one of the host's: nothing but its own address leads to the loopback.
    let host = HostNetwork { loopback: None, ..host_network(network)? };
    let policy = EgressPolicy::of_sockets(&network.egress, &host);
    // Each connection takes one. With a lower limit there are fewer connections.
    descriptor_limit::raise();
    let mut config = user_config(network, mac, mtu, &host);
    config.tcp_ports = bound.listeners.iter().map(|(_, guest)| *guest).collect();
    config.udp_ports = bound.sockets.iter().map(|(_, guest)| *guest).collect();
    let listeners = bound.listeners.drain(..).map(|(listener, _)| listener).collect();
    let sockets = bound.sockets.drain(..).map(|(socket, _)| socket).collect();
    let user = User::new(config, listeners, sockets, policy).map_err(NetworkError::Sockets)?;
    // The ports accept connections from now on.
    bound.chosen.iter().for_each(|chosen| say(format_args!("{}", ports::message(chosen))));
    let device = device_with(network, Box::new(user), mac, mtu)?;
    Ok(PreparedNetwork { device, tap: None, has_sockets: true, starting: None })
}

/// Addresses of the user-mode network, as the options say.
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
    let device = device(network, Box::new(tap), mtu)?;
    Ok(PreparedNetwork { device, tap: Some(fd), has_sockets: false, starting: None })
}

fn create_passt_device(
    network: &NetworkConfig,
    forwards: &[PortForward],
) -> Result<PreparedNetwork, NetworkError> {
    let mtu = network.mtu.unwrap_or(MAX_MTU);
    let mut forwards = forwards.to_vec();
    let chosen = ports::choose(&mut forwards)?;
    if let Some(note) = passt::udp_note(&forwards, network.host_loopback) {
        say(format_args!("{note}"));
    }
    let egress = EgressFilter::new(EgressPolicy::of_sockets(&network.egress, &host_network(network)?));
    let (passt, startup) = Passt::start(&passt_arguments(network, &forwards, mtu), egress)?;
    let device = device(network, Box::new(passt), mtu)?;
    let starting = StartingPasst { startup, forwards, chosen };
    Ok(PreparedNetwork { device, tap: None, has_sockets: false, starting: Some(starting) })
}

/// Networks of the host that bear on the egress of a guest behind passt.
fn host_network(network: &NetworkConfig) -> Result<HostNetwork, NetworkError> {
    let or_else = |given: &[IpAddr], host: fn() -> Vec<IpAddr>| {
        if given.is_empty() { host() } else { given.to_vec() }
    };
    // passt announces the host's DNS servers unless others are given. Without egress, these do not count.
    let nameservers = if network.egress.is_closed() {
        network.nameservers.clone()
    } else {
        or_else(&network.nameservers, host_network::nameservers)
    };
    // passt maps the gateway that it announces to the loopback.
    let gateways = || or_else(&network.gateways, host_network::default_gateways);
    Ok(HostNetwork {
        addresses: host_network::addresses().map_err(NetworkError::HostAddresses)?,
        loopback: network.host_loopback.then(gateways),
        nameservers,
    })
}

fn device(network: &NetworkConfig, backend: Box<dyn Backend>, mtu: u16) -> Result<Net, NetworkError> {
    device_with(network, backend, mac(network)?, mtu)
}

/// MAC address of the guest: the given one, or a random one.
fn mac(network: &NetworkConfig) -> Result<MacAddress, NetworkError> {
    if let Some(mac) = network.mac {
        return Ok(mac);
    }
    let mut bytes = [0; 6];
    random::fill(&mut bytes)?;
    Ok(MacAddress::local(bytes))
}

fn device_with(
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

/// Arguments of passt. Its DHCP and NDP servers announce the same addresses that the guest's kernel gets on its command
/// line.
fn passt_arguments(network: &NetworkConfig, forwards: &[PortForward], mtu: u16) -> Vec<String> {
    let mut arguments = vec!["--mtu".to_owned(), mtu.to_string()];
    let mut add = |option: &str, value: String| arguments.extend([option.to_owned(), value]);
    // passt takes one address of each IP version, and an IPv4 prefix.
    for is_kind in [IpAddr::is_ipv4, IpAddr::is_ipv6] {
        if let Some(first) = network.addresses.iter().find(|cidr| is_kind(&cidr.address)) {
            add("--address", first.address.to_string());
            if first.address.is_ipv4() {
                add("--netmask", first.prefix.to_string());
            }
        }
        if let Some(gateway) = network.gateways.iter().find(|address| is_kind(address)) {
            add("--gateway", gateway.to_string());
        }
    }
    if let Some((uid, gid)) = network.run_as {
        add("--runas", format!("{uid}:{gid}"));
    }
    let has_dns_forward = network.nameservers.contains(&DNS_FORWARD);
    let servers = network.nameservers.iter().filter(|&&address| address != DNS_FORWARD);
    servers.for_each(|address| add("--dns", address.to_string()));
    arguments.extend(passt::arguments(network.host_loopback, has_dns_forward));
    arguments.extend(forwards.iter().flat_map(PortForward::passt_option));
    arguments
}

/// Adds the network options to the guest kernel's command line.
pub fn encode_options(network: &NetworkConfig, line: &mut Encoder) {
    network.addresses.iter().for_each(|&address| line.ip(Ip::Address(address)));
    network.gateways.iter().for_each(|&gateway| line.gateway(gateway));
    network.nameservers.iter().for_each(|&nameserver| line.nameserver(nameserver));
    network.search.iter().for_each(|domain| line.search(domain));
    network.hostname.iter().for_each(|name| line.hostname(name));
    network.congestion.iter().for_each(|&control| line.congestion(control));
    if network.host_loopback {
        line.host(HostAddress::Gateway);
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_MTU, encode_options, passt_arguments};
    use crate::config::network::{NetworkConfig, NetworkOption};
    use hermit_interface::command_line::{Encoder, HostAddress, NetworkOptions};

    fn network(text: &str) -> NetworkConfig {
        text.parse::<NetworkOption>().unwrap().0.unwrap()
    }

    const STATIC: &str = "passt,ip=10.0.0.2/24,ip=10.0.0.3/24,ip=fd00::2/64,gateway=fd00::1,gateway=10.0.0.1,dns=1.1.1.1,search=a.test,hostname=web,congestion=reno";

    #[test]
    fn passt_arguments_have_addresses_and_forwards() {
        let forwards = ["8080:80", "127.0.0.1:81:81", "[::1]:53:5353/udp"].map(|text| text.parse().unwrap());
        let words = passt_arguments(&network(STATIC), &forwards, 1500).join(" ");
        assert_eq!(
            words,
            "--mtu 1500 --address 10.0.0.2 --netmask 24 --gateway 10.0.0.1 --address fd00::2 --gateway fd00::1 \
             --dns 1.1.1.1 --no-map-gw --tcp-ports 8080:80 --tcp-ports 127.0.0.1/81:81 --udp-ports ::1/53:5353"
        );
        for (text, words) in [
            ("passt", "--mtu 65520 --no-map-gw"),
            ("passt,host-loopback", "--mtu 65520"),
            ("passt,dns=169.254.1.1", "--mtu 65520 --no-map-gw --dns-forward 169.254.1.1"),
        ] {
            assert_eq!(passt_arguments(&network(text), &[], MAX_MTU).join(" "), words);
        }
        let jailed = NetworkConfig { run_as: Some((7, 8)), ..network("passt,host-loopback") };
        assert_eq!(passt_arguments(&jailed, &[], MAX_MTU).join(" "), "--mtu 65520 --runas 7:8");
    }

    #[test]
    fn kernel_command_line_has_the_configured_options_only() {
        let mut line = Encoder::new();
        encode_options(&network(STATIC), &mut line);
        let parsed = NetworkOptions::parse(&line.finish());
        assert_eq!((parsed.ip.len(), parsed.gateways.len(), parsed.nameservers.len()), (3, 2, 1));
        assert_eq!((parsed.hostname.as_deref(), parsed.malformed.len()), (Some("web"), 0));
        assert_eq!(parsed.host, None);
        let mut line = Encoder::new();
        encode_options(&network("passt,host-loopback"), &mut line);
        assert_eq!(NetworkOptions::parse(&line.finish()).host, Some(HostAddress::Gateway));
        let mut line = Encoder::new();
        encode_options(&network("tap=tap0"), &mut line);
        assert_eq!(line.finish(), Encoder::new().finish());
    }
}
