//! What network a machine is to have.

mod forward;
mod mac;

use std::net::IpAddr;
use std::str::FromStr;

use hermit_interface::command_line::{Cidr, host_address, is_hostname};
use hermit_interface::net::{LEAST_MTU_V6, MAX_ADDRESSES, MAX_NAMESERVERS};

pub use hermit_interface::interface_name::InterfaceName;

pub use self::forward::{PortForward, Protocol, first_conflict};
pub use self::mac::MacAddress;
use crate::devices::net::backend::{passt, tap};

/// Fewest bytes of an IP packet that a host must take (RFC 791). Guests count on that.
const LEAST_MTU: u16 = 576;

/// How the network is written on the command line.
const HELP: &str = "write tap=NAME, passt or none, and perhaps ,mac= ,mtu= ,ip= ,gateway= ,dns= ,hostname=";

/// A network device, and what is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// What is at the other end of the cable.
    pub link: BackendConfig,
    /// The guest's address on the network; without it, a random one.
    pub mac: Option<MacAddress>,
    /// Most bytes of an IP packet; without it, as many as the link takes.
    pub mtu: Option<u16>,
    /// The guest's addresses; without any, it asks for them.
    pub addresses: Vec<Cidr>,
    /// Where what is for other networks goes.
    pub gateways: Vec<IpAddr>,
    /// Who knows the addresses of names.
    pub nameservers: Vec<IpAddr>,
    /// How the guest is called.
    pub hostname: Option<String>,
}

/// What is at the other end of the cable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendConfig {
    /// A network interface of the host's.
    Tap(InterfaceName),
    /// A program that makes the guest's connections, and hands over those that come for these ports.
    Passt(Vec<PortForward>),
}

impl NetworkConfig {
    /// This link, and nothing special.
    #[must_use]
    pub const fn new(link: BackendConfig) -> Self {
        Self {
            link,
            mac: None,
            mtu: None,
            addresses: Vec::new(),
            gateways: Vec::new(),
            nameservers: Vec::new(),
            hostname: None,
        }
    }

    /// Follows `key=value`.
    fn set(&mut self, option: &str) -> Result<(), String> {
        let (key, value) = option.split_once('=').unwrap_or((option, ""));
        match key {
            "mac" => once(key, &mut self.mac, value.parse()?),
            "mtu" => once(key, &mut self.mtu, mtu(value)?),
            "ip" => add(key, &mut self.addresses, own_address(value)?, MAX_ADDRESSES),
            "gateway" => self.add_gateway(address(value)?),
            "dns" => add(key, &mut self.nameservers, address(value)?, MAX_NAMESERVERS),
            "hostname" if is_hostname(value) => once(key, &mut self.hostname, value.to_owned()),
            "hostname" => Err(format!("`{value}` is no name of a host")),
            _ => Err(format!("a network has no `{key}`: {HELP}")),
        }
    }

    /// The guest takes the first of each kind.
    fn add_gateway(&mut self, gateway: IpAddr) -> Result<(), String> {
        if self.gateways.iter().any(|other| other.is_ipv4() == gateway.is_ipv4()) {
            return Err(format!(
                "gateway={gateway} is one too many: a guest has one gateway of each kind, IPv4 and IPv6"
            ));
        }
        self.gateways.push(gateway);
        Ok(())
    }

    /// Fewest bytes of an IP packet with which the guest can do.
    #[must_use]
    pub fn least_mtu(&self) -> u16 {
        let has_v6 = self.addresses.iter().any(|own| own.address.is_ipv6());
        if has_v6 { LEAST_MTU_V6 } else { LEAST_MTU }
    }

    /// Refuses packets that are too small for the guest or too large for the link: both are known only when all is read.
    fn check_mtu(&self) -> Result<(), String> {
        let Some(mtu) = self.mtu else { return Ok(()) };
        let (least, most) = (self.least_mtu(), self.link.max_mtu());
        if (least..=most).contains(&mtu) {
            return Ok(());
        }
        let reason = if least == LEAST_MTU_V6 { "with an address of IPv6 " } else { "" };
        Err(format!("mtu={mtu} is no size of packets here: {reason}they have {least} to {most} bytes"))
    }
}

impl BackendConfig {
    /// Most bytes of an IP packet.
    const fn max_mtu(&self) -> u16 {
        match self {
            Self::Tap(_) => tap::MAX_MTU,
            Self::Passt(_) => passt::MAX_MTU,
        }
    }
}

/// Takes a value that there is only one of.
fn once<T>(key: &str, place: &mut Option<T>, value: T) -> Result<(), String> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!("{key}= is given twice: a guest has one")),
    }
}

/// Takes a value that there are at most so many of.
fn add<T>(key: &str, values: &mut Vec<T>, value: T, most: usize) -> Result<(), String> {
    values.push(value);
    if values.len() > most { Err(format!("a guest takes at most {most} {key}=")) } else { Ok(()) }
}

fn mtu(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("`{text}` is no size of packets, such as 1500"))
}

/// The guest's own address, which is no use on a network if it means the guest to every host.
fn own_address(text: &str) -> Result<Cidr, String> {
    let cidr: Cidr = text.parse()?;
    if cidr.address.is_loopback() {
        return Err(format!("`{text}` is what every host calls itself: write another, such as 10.0.0.2/24"));
    }
    Ok(cidr)
}

/// Another host's address.
fn address(text: &str) -> Result<IpAddr, String> {
    host_address(text).ok_or_else(|| format!("`{text}` is no address of a host, such as 10.0.0.1 or fd00::1"))
}

/// What `--net` says: a network, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkOption(pub Option<NetworkConfig>);

impl FromStr for NetworkOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, options) = text.split_once(',').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let link = match kind.split_once('=') {
            Some(("tap", name)) => BackendConfig::Tap(name.parse()?),
            None if kind == "tap" => return Err("which tap? write tap=NAME, such as tap=tap0".to_owned()),
            None if kind == "passt" => BackendConfig::Passt(Vec::new()),
            None if kind == "none" => {
                return options.map_or(Ok(Self(None)), |_| Err("nothing goes with none".to_owned()));
            }
            _ => return Err(format!("`{kind}` is no kind of network: {HELP}")),
        };
        let mut network = NetworkConfig::new(link);
        options
            .into_iter()
            .flat_map(|options| options.split(','))
            .try_for_each(|option| network.set(option))?;
        network.check_mtu()?;
        Ok(Self(Some(network)))
    }
}

#[cfg(test)]
mod tests {
    use super::{BackendConfig, NetworkConfig, NetworkOption};
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Option<NetworkConfig>, String> {
        text.parse().map(|NetworkOption(network)| network)
    }

    #[test]
    fn networks_are_read() {
        let text = "tap=tap0,mac=52:54:00:12:34:56,mtu=9000,ip=10.0.0.2/24,ip=fd00::2/64,gateway=10.0.0.1,\
                    gateway=fd00::1,dns=1.1.1.1,hostname=web";
        let network = parse(text).unwrap().unwrap();
        assert_eq!(network.link, BackendConfig::Tap("tap0".parse().unwrap()));
        assert_eq!(network.mac.unwrap().to_string(), "52:54:00:12:34:56");
        assert_eq!((network.mtu, network.addresses.len(), network.gateways.len()), (Some(9000), 2, 2));
        assert_eq!(network.nameservers, ["1.1.1.1".parse::<std::net::IpAddr>().unwrap()]);
        assert_eq!(network.hostname.as_deref(), Some("web"));
        assert_eq!(parse("passt"), Ok(Some(NetworkConfig::new(BackendConfig::Passt(Vec::new())))));
        assert_eq!(parse("none"), Ok(None));
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_write() {
        for (text, help) in [
            ("", "tap=NAME"),
            ("tap", "tap=tap0"),
            ("tap=", "no name of a network interface"),
            ("bridge=br0", "no kind of network"),
            ("none,mtu=1500", "nothing goes with none"),
            ("passt=8080", "no kind of network"),
            ("passt,speed=1", "no `speed`"),
            ("passt,", "no ``"),
            ("passt,mac", "no MAC address"),
            ("passt,mac=01:00:5e:00:00:01", "of one host"),
            ("passt,mtu=x", "no size of packets"),
            ("passt,mtu=575", "576 to 65520"),
            ("passt,mtu=1279,ip=fd00::2/64", "1280 to 65520"),
            ("passt,mtu=65521", "576 to 65520"),
            ("tap=tap0,mtu=65522", "576 to 65521"),
            ("passt,ip=10.0.0.2", "10.0.0.2/24"),
            ("passt,ip=0.0.0.0/8", "10.0.0.2/24"),
            ("passt,ip=224.0.0.1/8", "10.0.0.2/24"),
            ("passt,ip=127.0.0.1/8", "every host calls itself"),
            ("passt,ip=::1/128", "every host calls itself"),
            ("passt,gateway=0.0.0.0", "no address of a host"),
            ("passt,gateway=255.255.255.255", "no address of a host"),
            ("passt,dns=255.255.255.255", "no address of a host"),
            ("passt,gateway=10.0.0.1,gateway=fd00::1,gateway=10.0.0.2", "one gateway of each kind"),
            ("passt,gateway=fd00::1,gateway=fd00::1", "one gateway of each kind"),
            ("passt,mac=52:54:00:12:34:56,mac=52:54:00:12:34:56", "mac= is given twice"),
            ("passt,mtu=1500,mtu=9000", "mtu= is given twice"),
            ("passt,hostname=a,hostname=b", "hostname= is given twice"),
            ("passt,dns=one.one.one.one", "no address of a host"),
            ("passt,hostname=a_b", "no name of a host"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(help), "{text}: {error}");
        }
    }

    #[test]
    fn a_network_has_as_many_addresses_as_a_guest_takes() {
        let many = |key: &str, count: usize| {
            let addresses = (1..=count).map(|number| format!(",{key}=10.0.0.{number}"));
            addresses.map(|address| if key == "ip" { address + "/24" } else { address }).collect::<String>()
        };
        for (key, most) in [("ip", 7), ("dns", 4)] {
            assert!(parse(&format!("passt{}", many(key, most))).is_ok());
            let error = parse(&format!("passt{}", many(key, most + 1))).unwrap_err();
            assert!(error.contains(&format!("at most {most} {key}=")), "{error}");
        }
    }

    #[test]
    fn the_least_and_the_longest_packets_are_taken() {
        for text in ["passt,mtu=576", "passt,mtu=1280,ip=fd00::2/64", "passt,mtu=65520", "tap=t,mtu=65521"] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text: String) {
            let _: Result<NetworkOption, String> = text.parse();
        }
    }
}
