//! Configuration of the network device: the value of `--net`.
//!
//! The value is a backend, followed by options that are separated by commas: `user,mtu=1500,hostname=web`.
//! The backend `user` is uhyve's own user-mode network with sockets, `tap=NAME` is an interface of the host,
//! and `none` gives the guest no network device. Some options configure the device (`mac`, `mtu`, rate
//! limits). Others configure the guest's network stack (`ip`, `gateway`, `dns`, `congestion`). The others,
//! `allow`, `deny`, `egress` and `host-loopback`, determine to which addresses the guest may open
//! connections. Options may come in any order, so checks that involve several options run after all are
//! parsed.

mod mac;

use std::net::IpAddr;
use std::str::FromStr;

use hermit_interface::command_line::{Cidr, Encoder, HostAddress, Ip, host_address, is_hostname};
use hermit_interface::net::CongestionControl;
use hermit_interface::net::{MAX_ADDRESSES, MAX_DOMAINS, MAX_NAMESERVERS, MIN_MTU_V6};

pub use hermit_interface::interface_name::InterfaceName;
pub use hermit_interface::port_forward::{PortForward, Protocol, first_conflict};

pub use self::mac::MacAddress;
use crate::egress::{EgressOptions, Prefix};
use crate::rate::RateLimits;

/// Minimum MTU in bytes: every host must accept datagrams of this size (RFC 791 §3.1), and guests rely on
/// this.
const MIN_MTU: u16 = 576;

/// Maximum MTU in bytes of the user-mode network. The path's MTU does not limit it, because the guest's TCP
/// connections end in uhyve.
pub const MAX_USER_MTU: u16 = 65_520;

/// Key of `--net` that opens the host's loopback to the guest.
const HOST_LOOPBACK: &str = "host-loopback";

/// Maximum MTU of a TAP interface in bytes: a frame with its Ethernet header has at most 65,535 bytes.
pub const MAX_TAP_MTU: u16 = 65_521;

/// Syntax of the option, for error messages.
const HELP: &str = "write user, tap=NAME or none, and perhaps ,mac= ,mtu= ,ip= ,gateway= ,dns= ,search= ,hostname= ,congestion= ,bps= ,pps= ,allow= ,deny= ,egress=none and, with user, ,host-loopback";

/// Configuration of a network device and its backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// Backend of the device.
    pub backend: BackendConfig,
    /// MAC address of the guest; random if `None`.
    pub mac: Option<MacAddress>,
    /// MTU in bytes; the backend's maximum if `None`.
    pub mtu: Option<u16>,
    /// IP addresses of the guest. If empty, the guest configures itself by DHCP and SLAAC.
    pub addresses: Vec<Cidr>,
    /// Default gateways, at most one for each IP version.
    pub gateways: Vec<IpAddr>,
    /// DNS servers.
    pub nameservers: Vec<IpAddr>,
    /// DNS search domains.
    pub search: Vec<String>,
    /// Host name of the guest.
    pub hostname: Option<String>,
    /// Congestion control of the guest's TCP.
    pub congestion: Option<CongestionControl>,
    /// True if the guest reaches the host's loopback at the address of its gateway. Always false with a tap.
    pub host_loopback: bool,
    /// Addresses to which the guest may open connections.
    pub egress: EgressOptions,
    /// Limits of bytes and frames per second, for each direction.
    pub limits: RateLimits,
}

/// Backend of a network device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendConfig {
    /// A TAP interface of the host.
    Tap(InterfaceName),
    /// The user-mode network with sockets of uhyve, and these forwarded ports.
    User(Vec<PortForward>),
}

impl NetworkConfig {
    /// Adds the options of the guest's kernel to its command line. The kernel requests missing values from
    /// the network.
    pub fn encode(&self, line: &mut Encoder) {
        self.addresses.iter().for_each(|&address| line.ip(Ip::Address(address)));
        self.gateways.iter().for_each(|&gateway| line.gateway(gateway));
        self.nameservers.iter().for_each(|&nameserver| line.nameserver(nameserver));
        self.search.iter().for_each(|domain| line.search(domain));
        self.hostname.iter().for_each(|name| line.hostname(name));
        self.congestion.iter().for_each(|&control| line.congestion(control));
        if self.host_loopback {
            line.host(HostAddress::Gateway);
        }
    }

    /// Returns the configuration with this backend, and default values otherwise.
    #[must_use]
    pub fn new(backend: BackendConfig) -> Self {
        Self {
            backend,
            mac: None,
            mtu: None,
            addresses: Vec::new(),
            gateways: Vec::new(),
            nameservers: Vec::new(),
            search: Vec::new(),
            hostname: None,
            congestion: None,
            host_loopback: false,
            egress: EgressOptions::default(),
            limits: RateLimits { bytes: None, operations: None },
        }
    }

    /// Applies an option `key=value`.
    fn set(&mut self, option: &str) -> Result<(), String> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match key {
            "mac" => set_once(key, &mut self.mac, value.parse()?),
            "mtu" => set_once(key, &mut self.mtu, mtu(value)?),
            "ip" => add(key, &mut self.addresses, own_address(value)?, MAX_ADDRESSES),
            "gateway" => self.add_gateway(address(value)?),
            "dns" => add(key, &mut self.nameservers, address(value)?, MAX_NAMESERVERS),
            "search" if is_hostname(value) => add(key, &mut self.search, value.to_owned(), MAX_DOMAINS),
            "search" => Err(format!("`{value}` is no name of a domain")),
            "hostname" if is_hostname(value) => set_once(key, &mut self.hostname, value.to_owned()),
            "hostname" => Err(format!("`{value}` is no name of a host")),
            "congestion" => set_once(key, &mut self.congestion, congestion(value)?),
            "bps" => self.limits.set_bytes(value),
            "pps" => self.limits.set_operations(value),
            "allow" => self.egress.allow(value.parse::<Prefix>()?),
            "deny" => self.egress.deny(value.parse::<Prefix>()?),
            "egress" if value == "none" => self.egress.close(),
            "egress" => Err(format!("`{value}` is no egress: write egress=none, or leave it out")),
            HOST_LOOPBACK if option == key => self.open_host_loopback(),
            HOST_LOOPBACK => Err(format!("{key} takes no value: remove ={value}")),
            _ => Err(format!("a network has no `{key}`: {HELP}")),
        }
    }

    /// Lets the guest reach the host's loopback.
    fn open_host_loopback(&mut self) -> Result<(), String> {
        if let BackendConfig::Tap(_) = self.backend {
            return Err(format!("{HOST_LOOPBACK} goes with user: a tap has no way to the host's loopback"));
        }
        self.host_loopback = true;
        Ok(())
    }

    /// Adds a default gateway. The guest's kernel uses only the first gateway of each IP version, so a second
    /// one is an error.
    fn add_gateway(&mut self, gateway: IpAddr) -> Result<(), String> {
        if self.gateways.iter().any(|other| other.is_ipv4() == gateway.is_ipv4()) {
            return Err(format!(
                "gateway={gateway} is one too many: a guest has one gateway of each kind, IPv4 and IPv6"
            ));
        }
        self.gateways.push(gateway);
        Ok(())
    }

    /// Returns the minimum MTU in bytes that the guest's addresses require.
    #[must_use]
    pub fn min_mtu(&self) -> u16 {
        let has_v6 = self.addresses.iter().any(|own| own.address.is_ipv6());
        if has_v6 { MIN_MTU_V6 } else { MIN_MTU }
    }

    /// Returns an error if rules open addresses on a tap although all addresses are open already. Call it
    /// after all options are applied.
    fn check_egress(&self) -> Result<(), String> {
        let is_tap = matches!(self.backend, BackendConfig::Tap(_));
        if is_tap && self.egress.opens_any() && !self.egress.closes_any() {
            return Err(
                "allow= has no effect on a tap, where all addresses are open: add egress=none".to_owned()
            );
        }
        Ok(())
    }

    /// Checks the MTU against the guest's addresses and the backend. Call it after all options are applied.
    fn check_mtu(&self) -> Result<(), String> {
        let Some(mtu) = self.mtu else { return Ok(()) };
        let (min, max) = (self.min_mtu(), self.backend.max_mtu());
        if (min..=max).contains(&mtu) {
            return Ok(());
        }
        let reason = if min == MIN_MTU_V6 { "with an address of IPv6 " } else { "" };
        Err(format!("mtu={mtu} is no size of packets here: {reason}they have {min} to {max} bytes"))
    }
}

impl BackendConfig {
    /// Returns the maximum MTU in bytes of the backend.
    const fn max_mtu(&self) -> u16 {
        match self {
            Self::Tap(_) => MAX_TAP_MTU,
            Self::User(_) => MAX_USER_MTU,
        }
    }
}

/// Sets an option that may be given only once.
fn set_once<T>(key: &str, option: &mut Option<T>, value: T) -> Result<(), String> {
    match option.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{key}= is given twice: a guest has one")),
    }
}

/// Adds a value of an option that may be given `max` times.
fn add<T>(key: &str, values: &mut Vec<T>, value: T, max: usize) -> Result<(), String> {
    values.push(value);
    if values.len() > max { Err(format!("a guest takes at most {max} {key}=")) } else { Ok(()) }
}

/// Parses a name of a congestion control.
fn congestion(name: &str) -> Result<CongestionControl, String> {
    CongestionControl::from_name(name.as_bytes())
        .ok_or_else(|| format!("`{name}` is no congestion control: write cubic, reno or bbr"))
}

fn mtu(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("`{text}` is no size of packets, such as 1500"))
}

/// Parses an address of the guest, which must not be a loopback address.
fn own_address(text: &str) -> Result<Cidr, String> {
    let cidr: Cidr = text.parse()?;
    if cidr.address.is_loopback() {
        return Err(format!("`{text}` is what every host calls itself: write another, such as 10.0.0.2/24"));
    }
    Ok(cidr)
}

/// Parses the address of another host.
fn address(text: &str) -> Result<IpAddr, String> {
    host_address(text).ok_or_else(|| format!("`{text}` is no address of a host, such as 10.0.0.1 or fd00::1"))
}

/// Value of `--net`; `None` for `--net none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkOption(pub Option<NetworkConfig>);

impl NetworkOption {
    /// Returns the user-mode network with its defaults. `-p` implies it.
    #[must_use]
    pub fn user() -> Self {
        Self(Some(NetworkConfig::new(BackendConfig::User(Vec::new()))))
    }
}

impl FromStr for NetworkOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, options) = text.split_once(',').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let backend = match kind.split_once('=') {
            Some(("tap", name)) => BackendConfig::Tap(name.parse()?),
            None if kind == "tap" => return Err("which tap? write tap=NAME, such as tap=tap0".to_owned()),
            None if kind == "user" => BackendConfig::User(Vec::new()),
            None if kind == "passt" => {
                return Err("uhyve has a network of its own in place of passt: write --net user, or only -p"
                    .to_owned());
            }
            None if kind == "none" => {
                return options.map_or(Ok(Self(None)), |_| Err("nothing goes with none".to_owned()));
            }
            _ => return Err(format!("unknown network `{kind}`: {HELP}")),
        };
        let mut network = NetworkConfig::new(backend);
        options
            .into_iter()
            .flat_map(|options| options.split(','))
            .try_for_each(|option| network.set(option))?;
        network.check_mtu()?;
        network.check_egress()?;
        Ok(Self(Some(network)))
    }
}

/// Converts `--net` and `-p` into the configuration of the network device; `None` if the guest has none.
///
/// # Errors
///
/// A message about ports that conflict with each other, or with the network.
pub fn device(
    choice: Option<NetworkOption>,
    ports: Vec<PortForward>,
) -> Result<Option<NetworkConfig>, String> {
    if let Some(port) = first_conflict(&ports) {
        return Err(format!("-p: the host's port {port} is given twice, but goes to one port of the guest"));
    }
    let choice = choice.or_else(|| (!ports.is_empty()).then(NetworkOption::user));
    let network = choice.and_then(|NetworkOption(network)| network);
    match network {
        Some(NetworkConfig { backend: BackendConfig::User(_), .. }) => {
            Ok(network.map(|network| NetworkConfig { backend: BackendConfig::User(ports), ..network }))
        }
        _ if ports.is_empty() => Ok(network),
        Some(_) => Err("-p goes with --net user: with a tap, the guest has an address of its own".to_owned()),
        None => Err("-p needs a network: remove --net none".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{BackendConfig, CongestionControl, NetworkConfig, NetworkOption};
    use hermit_interface::command_line::{Encoder, HostAddress, NetworkOptions};
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Option<NetworkConfig>, String> {
        text.parse().map(|NetworkOption(network)| network)
    }

    /// The guest's command line, which a VMM or QEMU passes to the kernel.
    fn encoded(text: &str) -> Vec<u8> {
        let mut line = Encoder::new();
        parse(text).unwrap().unwrap().encode(&mut line);
        line.finish()
    }

    #[test]
    fn kernel_command_line_has_the_configured_options_only() {
        let fixed = "user,ip=10.0.0.2/24,ip=10.0.0.3/24,ip=fd00::2/64,gateway=fd00::1,gateway=10.0.0.1,\
                     dns=1.1.1.1,search=a.test,hostname=web,congestion=reno";
        let parsed = NetworkOptions::parse(&encoded(fixed));
        assert_eq!((parsed.ip.len(), parsed.gateways.len(), parsed.nameservers.len()), (3, 2, 1));
        assert_eq!((parsed.hostname.as_deref(), parsed.malformed.len()), (Some("web"), 0));
        assert_eq!(parsed.host, None);
        let host = NetworkOptions::parse(&encoded("user,host-loopback")).host;
        assert_eq!(host, Some(HostAddress::Gateway));
        assert_eq!(encoded("tap=tap0"), Encoder::new().finish());
    }

    #[test]
    fn network_option_is_parsed() {
        let text = "tap=tap0,mac=52:54:00:12:34:56,mtu=9000,ip=10.0.0.2/24,ip=fd00::2/64,gateway=10.0.0.1,\
                    gateway=fd00::1,dns=1.1.1.1,search=a.test,search=b,hostname=web,congestion=bbr,bps=10M,pps=100/200";
        let network = parse(text).unwrap().unwrap();
        assert_eq!(network.backend, BackendConfig::Tap("tap0".parse().unwrap()));
        assert_eq!(network.mac.unwrap().to_string(), "52:54:00:12:34:56");
        assert_eq!((network.mtu, network.addresses.len(), network.gateways.len()), (Some(9000), 2, 2));
        assert_eq!(network.nameservers, ["1.1.1.1".parse::<std::net::IpAddr>().unwrap()]);
        assert_eq!(network.search, ["a.test", "b"]);
        assert_eq!(network.hostname.as_deref(), Some("web"));
        assert_eq!(network.congestion, Some(CongestionControl::Bbr));
        assert_eq!(network.limits.bytes, Some("10M".parse().unwrap()));
        assert_eq!(network.limits.operations, Some("100/200".parse().unwrap()));
        assert_eq!(parse("user"), Ok(Some(NetworkConfig::new(BackendConfig::User(Vec::new())))));
        assert_eq!(parse("none"), Ok(None));
        assert!(
            !network.host_loopback && parse("user,host-loopback,mtu=1500").unwrap().unwrap().host_loopback
        );
    }

    #[test]
    fn invalid_network_option_is_an_error_with_the_syntax() {
        for (text, help) in [
            ("", "tap=NAME"),
            ("tap", "tap=tap0"),
            ("tap=", "no name of a network interface"),
            ("bridge=br0", "unknown network `bridge=br0`"),
            ("none,mtu=1500", "nothing goes with none"),
            ("user=8080", "unknown network `user=8080`"),
            ("passt", "write --net user"),
            ("passt,mtu=1500", "write --net user"),
            ("user,speed=1", "no `speed`"),
            ("user,", "no ``"),
            ("user,mac", "no MAC address"),
            ("user,mac=01:00:5e:00:00:01", "of one host"),
            ("user,mtu=x", "no size of packets"),
            ("user,mtu=575", "576 to 65520"),
            ("user,mtu=1279,ip=fd00::2/64", "1280 to 65520"),
            ("user,mtu=65521", "576 to 65520"),
            ("tap=tap0,mtu=65522", "576 to 65521"),
            ("user,ip=10.0.0.2", "10.0.0.2/24"),
            ("user,ip=0.0.0.0/8", "10.0.0.2/24"),
            ("user,ip=224.0.0.1/8", "10.0.0.2/24"),
            ("user,ip=127.0.0.1/8", "every host calls itself"),
            ("user,ip=::1/128", "every host calls itself"),
            ("user,gateway=0.0.0.0", "no address of a host"),
            ("user,gateway=255.255.255.255", "no address of a host"),
            ("user,dns=255.255.255.255", "no address of a host"),
            ("user,gateway=10.0.0.1,gateway=fd00::1,gateway=10.0.0.2", "one gateway of each kind"),
            ("user,gateway=fd00::1,gateway=fd00::1", "one gateway of each kind"),
            ("user,mac=52:54:00:12:34:56,mac=52:54:00:12:34:56", "mac= is given twice"),
            ("tap=tap0,host-loopback", "goes with user"),
            ("user,host-loopback=yes", "takes no value"),
            ("user,host-loopback=", "takes no value"),
            ("user,allow=", "no range of addresses"),
            ("user,allow", "no range of addresses"),
            ("user,deny=10.0.0.1/8", "write 10.0.0.0/8"),
            ("user,allow=10.0.0.0/8,deny=10.0.0.0/8", "10.0.0.0/8 is given twice"),
            ("user,allow=127.0.0.1", "host-loopback opens its loopback"),
            ("user,egress=none,egress=none", "egress= is given twice"),
            ("user,egress=all", "write egress=none"),
            ("user,egress", "write egress=none"),
            ("tap=tap0,allow=10.0.0.0/8", "add egress=none"),
            ("user,bps=1,bps=2", "one too many"),
            ("user,pps=0", "no rate"),
            ("user,mtu=1500,mtu=9000", "mtu= is given twice"),
            ("user,hostname=a,hostname=b", "hostname= is given twice"),
            ("user,dns=one.one.one.one", "no address of a host"),
            ("user,search=a b", "no name of a domain"),
            ("user,search=", "no name of a domain"),
            ("user,hostname=a_b", "no name of a host"),
            ("user,congestion=vegas", "`vegas` is no congestion control: write cubic, reno or bbr"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(help), "{text}: {error}");
        }
    }

    #[test]
    fn egress_is_that_of_the_options() {
        let egress = |text: &str| parse(text).unwrap().unwrap().egress;
        let default = egress("user");
        assert!(!default.closes_any() && !default.opens_any() && !default.is_closed());
        let some = egress("user,allow=169.254.169.254,deny=10.0.0.0/8,deny=fd00::/8");
        assert!(some.closes_any() && some.opens_any() && !some.is_closed());
        for text in ["user,egress=none", "tap=tap0,egress=none,allow=10.0.0.0/8"] {
            assert!(egress(text).is_closed(), "{text}");
        }
        assert!(egress("tap=tap0,deny=0.0.0.0/0,allow=10.0.0.0/8").closes_any());
    }

    #[test]
    fn addresses_are_limited_to_those_of_a_guest() {
        let many = |key: &str, count: usize| {
            let addresses = (1..=count).map(|number| format!(",{key}=10.0.0.{number}"));
            addresses.map(|address| if key == "ip" { address + "/24" } else { address }).collect::<String>()
        };
        for (key, max) in [("ip", 7), ("dns", 4), ("search", 6)] {
            assert!(parse(&format!("user{}", many(key, max))).is_ok());
            let error = parse(&format!("user{}", many(key, max + 1))).unwrap_err();
            assert!(error.contains(&format!("at most {max} {key}=")), "{error}");
        }
    }

    #[test]
    fn minimum_and_maximum_mtu_are_accepted() {
        for text in ["user,mtu=576", "user,mtu=1280,ip=fd00::2/64", "user,mtu=65520", "tap=t,mtu=65521"] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn parser_accepts_arbitrary_text(text: String) {
            let _: Result<NetworkOption, String> = text.parse();
        }
    }
}
