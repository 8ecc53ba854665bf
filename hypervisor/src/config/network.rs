//! What network a machine is to have.

mod forward;

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use hermit_interface::command_line::{Cidr, is_hostname};

pub use self::forward::{Forward, Protocol, given_twice};

/// Most bytes of an interface's name (Linux's IFNAMSIZ, without the zero).
const MAX_NAME: usize = 15;

/// Fewest bytes of an IP packet that every network must take (RFC 791).
const MIN_MTU: u16 = 68;

/// How the network is written on the command line.
const HELP: &str = "write tap=NAME, passt or none, and perhaps ,mac= ,mtu= ,ip= ,gateway= ,dns= ,hostname=";

/// A network device, and what is behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Network {
    /// What is at the other end of the cable.
    pub link: Link,
    /// The guest's address on the network; without it, a random one.
    pub mac: Option<Mac>,
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
pub enum Link {
    /// A network interface of the host's.
    Tap(InterfaceName),
    /// A program that makes the guest's connections, and hands over those that come for these ports.
    Passt(Vec<Forward>),
}

impl Network {
    /// This link, and nothing special.
    #[must_use]
    pub const fn new(link: Link) -> Self {
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
            "mac" => self.mac = Some(value.parse()?),
            "mtu" => self.mtu = Some(mtu(value)?),
            "ip" => self.addresses.push(value.parse()?),
            "gateway" => self.gateways.push(address(value)?),
            "dns" => self.nameservers.push(address(value)?),
            "hostname" if is_hostname(value) => self.hostname = Some(value.to_owned()),
            "hostname" => return Err(format!("`{value}` is no name of a host")),
            _ => return Err(format!("a network has no `{key}`: {HELP}")),
        }
        Ok(())
    }
}

fn mtu(text: &str) -> Result<u16, String> {
    let mtu = text.parse().ok().filter(|&mtu| mtu >= MIN_MTU);
    mtu.ok_or_else(|| format!("`{text}` is no size of packets: {MIN_MTU} to {} bytes", u16::MAX))
}

fn address(text: &str) -> Result<IpAddr, String> {
    let address = text.parse::<IpAddr>().ok().filter(|ip| !ip.is_unspecified() && !ip.is_multicast());
    address.ok_or_else(|| format!("`{text}` is no address of a host, such as 10.0.0.1 or fd00::1"))
}

/// What `--net` says: a network, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkChoice(pub Option<Network>);

impl FromStr for NetworkChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, options) = text.split_once(',').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let link = match kind.split_once('=') {
            Some(("tap", name)) => Link::Tap(name.parse()?),
            None if kind == "tap" => return Err("which tap? write tap=NAME, such as tap=tap0".to_owned()),
            None if kind == "passt" => Link::Passt(Vec::new()),
            None if kind == "none" => {
                return options.map_or(Ok(Self(None)), |_| Err("nothing goes with none".to_owned()));
            }
            _ => return Err(format!("`{kind}` is no kind of network: {HELP}")),
        };
        let mut network = Network::new(link);
        options
            .into_iter()
            .flat_map(|options| options.split(','))
            .try_for_each(|option| network.set(option))?;
        Ok(Self(Some(network)))
    }
}

/// The name of a network interface of the host's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceName(String);

impl InterfaceName {
    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InterfaceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // What Linux takes, but for `%`, by which it makes names itself.
        let is_good = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':' | b'%');
        let is_name = (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_good);
        if !is_name || matches!(text, "." | "..") {
            return Err(format!(
                "`{text}` is no name of a network interface: at most {MAX_NAME} letters and digits"
            ));
        }
        Ok(Self(text.to_owned()))
    }
}

/// An address on a network of one host, not of many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac([u8; 6]);

impl Mac {
    /// In the order in which it is sent.
    #[must_use]
    pub const fn bytes(self) -> [u8; 6] {
        self.0
    }

    /// An address that no manufacturer has given away, made of random bytes.
    #[must_use]
    pub const fn local([_, a, b, c, d, e]: [u8; 6]) -> Self {
        Self([0x02, a, b, c, d, e])
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl FromStr for Mac {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = |what| format!("`{text}` is {what}, such as 52:54:00:12:34:56");
        let pair = |pair: &str| {
            let is_pair = pair.len() == 2 && pair.bytes().all(|byte| byte.is_ascii_hexdigit());
            u8::from_str_radix(pair, 16).ok().filter(|_| is_pair)
        };
        let bytes: Option<Vec<u8>> = text.split(':').map(pair).collect();
        let bytes = bytes.and_then(|bytes| <[u8; 6]>::try_from(bytes).ok());
        let bytes = bytes.ok_or_else(|| help("no MAC address"))?;
        let [first, ..] = bytes;
        if first & 1 != 0 || bytes == [0; 6] {
            return Err(help("no MAC address of one host"));
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::{InterfaceName, Link, Mac, Network, NetworkChoice};
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Option<Network>, String> {
        text.parse().map(|NetworkChoice(network)| network)
    }

    #[test]
    fn networks_are_read() {
        let text = "tap=tap0,mac=52:54:00:12:34:56,mtu=9000,ip=10.0.0.2/24,ip=fd00::2/64,gateway=10.0.0.1,\
                    gateway=fd00::1,dns=1.1.1.1,hostname=web";
        let network = parse(text).unwrap().unwrap();
        assert_eq!(network.link, Link::Tap("tap0".parse().unwrap()));
        assert_eq!(network.mac.unwrap().to_string(), "52:54:00:12:34:56");
        assert_eq!((network.mtu, network.addresses.len(), network.gateways.len()), (Some(9000), 2, 2));
        assert_eq!(network.nameservers, ["1.1.1.1".parse::<std::net::IpAddr>().unwrap()]);
        assert_eq!(network.hostname.as_deref(), Some("web"));
        assert_eq!(parse("passt"), Ok(Some(Network::new(Link::Passt(Vec::new())))));
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
            ("passt,mtu=67", "68 to 65535"),
            ("passt,mtu=65536", "68 to 65535"),
            ("passt,ip=10.0.0.2", "10.0.0.2/24"),
            ("passt,gateway=0.0.0.0", "no address of a host"),
            ("passt,dns=one.one.one.one", "no address of a host"),
            ("passt,hostname=a_b", "no name of a host"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(help), "{text}: {error}");
        }
    }

    #[test]
    fn names_of_interfaces_are_those_of_linux() {
        for name in ["tap0", "br-lan.7", "exactly15bytes_"] {
            assert_eq!(name.parse::<InterfaceName>().unwrap().as_str(), name);
        }
        for name in ["", ".", "..", "a/b", "a b", "tap%d", "eth0:1", "sixteen_bytes_xx", "täp"] {
            assert!(name.parse::<InterfaceName>().is_err(), "{name}");
        }
    }

    #[test]
    fn addresses_on_a_network_are_of_one_host() {
        for text in ["", "52:54:00:12:34", "52:54:00:12:34:56:78", "5:54:00:12:34:56", "+5:54:00:12:34:56"] {
            assert!(text.parse::<Mac>().unwrap_err().contains("no MAC address,"), "{text}");
        }
        for text in ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"] {
            assert!(text.parse::<Mac>().unwrap_err().contains("of one host"), "{text}");
        }
        assert_eq!(Mac::local([0xff; 6]).to_string(), "02:ff:ff:ff:ff:ff");
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text: String) {
            let _: Result<NetworkChoice, String> = text.parse();
            if let Ok(name) = text.parse::<InterfaceName>() {
                prop_assert!(name.as_str().len() <= 15);
            }
        }

        #[test]
        fn a_mac_is_read_as_it_is_written(bytes: [u8; 6]) {
            let mac = Mac::local(bytes);
            prop_assert_eq!(mac.to_string().parse(), Ok(mac));
        }
    }
}
