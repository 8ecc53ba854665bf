//! Words that configure the network.
//!
//! | word | |
//! | --- | --- |
//! | `ip=dhcp` | addresses come from a server |
//! | `ip=ADDRESS/PREFIX` | an address and the length of its network's prefix, `10.0.0.2/24` or `fd00::2/64`; may be repeated |
//! | `gateway=ADDRESS` | where what is for other networks goes; may be repeated |
//! | `nameserver=ADDRESS` | who knows the addresses of names; may be repeated |
//! | `hostname=NAME` | how the machine is called |

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::str;

use super::{Encoder, Words};

/// Most bytes of a host's name (RFC 1035, section 2.3.4, without the length of the first and of the last label).
const MAX_HOSTNAME: usize = 253;

/// Most bytes between two dots of it.
const MAX_LABEL: usize = 63;

/// Where a machine's addresses come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// From a server (DHCP).
    Dhcp,
    /// This is one.
    Address(Cidr),
}

/// An address that a host can have, and which others are in the same network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// Neither unspecified nor for many hosts.
    pub address: IpAddr,
    /// How many bits all addresses of the network have in common: at most 32, or 128 with IPv6.
    pub prefix: u8,
}

impl str::FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || format!("`{text}` is no address with a prefix, such as 10.0.0.2/24 or fd00::2/64");
        let (address, prefix) = text.split_once('/').ok_or_else(help)?;
        let address = host_address(address).ok_or_else(help)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|&prefix| is_number && prefix <= most).ok_or_else(help)?;
        Ok(Self { address, prefix })
    }
}

impl Encoder {
    /// Adds an address, or says that a server knows.
    pub fn ip(&mut self, ip: Ip) {
        match ip {
            Ip::Dhcp => self.option(b"ip=", b"dhcp"),
            Ip::Address(Cidr { address, prefix }) => {
                self.option(b"ip=", format!("{address}/{prefix}").as_bytes());
            }
        }
    }

    /// Adds a host to which goes what is for other networks.
    pub fn gateway(&mut self, address: IpAddr) {
        self.option(b"gateway=", format!("{address}").as_bytes());
    }

    /// Adds a host that knows the addresses of names.
    pub fn nameserver(&mut self, address: IpAddr) {
        self.option(b"nameserver=", format!("{address}").as_bytes());
    }

    /// Says how the machine is called.
    pub fn hostname(&mut self, name: &str) {
        self.option(b"hostname=", name.as_bytes());
    }
}

/// What a command line says about the network. Only who has a network reads that.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct NetworkOptions {
    /// Where the machine's addresses come from, in the line's order; nothing if the line does not say.
    pub ip: Vec<Ip>,
    /// Where what is for other networks goes.
    pub gateways: Vec<IpAddr>,
    /// Who knows the addresses of names.
    pub nameservers: Vec<IpAddr>,
    /// How the machine is called: a good name ([`is_hostname`]).
    pub hostname: Option<String>,
    /// Words about the network that make no sense, as they were written.
    pub malformed: Vec<Vec<u8>>,
}

impl NetworkOptions {
    /// Reads a line.
    #[must_use]
    pub fn parse(line: &[u8]) -> Self {
        let mut parsed = Self::default();
        let options = Words { rest: line }.take_while(|(word, quoted)| word != b"--" || *quoted);
        options.for_each(|(word, _)| parsed.take(&word));
        parsed
    }

    /// Takes a word, if it is one of these. One that makes no sense is kept as [`Self::malformed`].
    fn take(&mut self, word: &[u8]) {
        let Some(end) = word.iter().position(|&byte| byte == b'=') else { return };
        let (name, value) = word.split_at(end);
        // Without the equals sign.
        let value = str::from_utf8(value).ok().and_then(|value| value.get(1..));
        let is_good = match name {
            b"ip" => take(&mut self.ip, value.and_then(ip)),
            b"gateway" => take(&mut self.gateways, value.and_then(host_address)),
            b"nameserver" => take(&mut self.nameservers, value.and_then(host_address)),
            b"hostname" => {
                let name = value.filter(|name| is_hostname(name)).map(ToOwned::to_owned);
                let is_good = name.is_some();
                self.hostname = name.or_else(|| self.hostname.take());
                is_good
            }
            _ => return,
        };
        if !is_good {
            self.malformed.push(word.to_vec());
        }
    }
}

/// Adds a value to a list, if there is one.
fn take<T>(list: &mut Vec<T>, value: Option<T>) -> bool {
    let before = list.len();
    list.extend(value);
    list.len() > before
}

fn ip(text: &str) -> Option<Ip> {
    if text == "dhcp" { Some(Ip::Dhcp) } else { text.parse().ok().map(Ip::Address) }
}

/// An address that one host can have; none if the text is something else.
#[must_use]
pub fn host_address(text: &str) -> Option<IpAddr> {
    let address = text.parse::<IpAddr>().ok()?;
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    (!address.is_unspecified() && !address.is_multicast() && !is_broadcast).then_some(address)
}

/// Whether a host may be called so (RFC 1123, section 2.1): letters, digits and hyphens, in pieces with dots in between.
#[must_use]
pub fn is_hostname(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(is_good)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    name.len() <= MAX_HOSTNAME && name.split('.').all(is_label)
}

#[cfg(test)]
mod tests {
    use super::{Cidr, Ip, NetworkOptions, is_hostname};
    use crate::command_line::Encoder;
    use alloc::string::String;
    use alloc::vec::Vec;
    use core::net::IpAddr;
    use proptest::collection::vec;
    use proptest::prelude::*;

    fn parse(line: &str) -> NetworkOptions {
        NetworkOptions::parse(line.as_bytes())
    }

    fn address(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn words_typed_by_hand_are_understood() {
        let line = parse(
            "ip=dhcp ip=10.0.0.2/24 ip=fd00::2/64 gateway=10.0.0.1 gateway=fe80::1 nameserver=1.1.1.1 \
             nameserver=2606:4700:4700::1111 hostname=web-1.example.org -- ip=dhcp",
        );
        let cidr = |text, prefix| Ip::Address(Cidr { address: address(text), prefix });
        assert_eq!(line.ip, [Ip::Dhcp, cidr("10.0.0.2", 24), cidr("fd00::2", 64)]);
        assert_eq!(line.gateways, [address("10.0.0.1"), address("fe80::1")]);
        assert_eq!(line.nameservers, [address("1.1.1.1"), address("2606:4700:4700::1111")]);
        assert_eq!(line.hostname.as_deref(), Some("web-1.example.org"));
        assert_eq!(line.malformed.len(), 0);
        assert_eq!(parse("hostname=a hostname=b").hostname.as_deref(), Some("b"));
    }

    #[test]
    fn what_makes_no_sense_is_kept_apart() {
        for word in [
            "ip=",
            "ip=10.0.0.2",
            "ip=10.0.0.2/",
            "ip=10.0.0.2/33",
            "ip=10.0.0.2/+8",
            "ip=10.0.0.2/256",
            "ip=fd00::2/129",
            "ip=0.0.0.0/8",
            "ip=::/64",
            "ip=224.0.0.1/8",
            "ip=255.255.255.255/32",
            "ip=10.0.0.2::10.0.0.1:255.255.255.0::eth0:off",
            "ip=DHCP",
            "gateway=",
            "gateway=ff02::1",
            "gateway=10.0.0",
            "gateway=10.0.0.1/24",
            "nameserver=one.one.one.one",
            "hostname=",
            "hostname=a..b",
            "hostname=-a",
            "hostname=a_b",
        ] {
            let line = parse(word);
            assert_eq!(line.malformed, [word.as_bytes()], "{word}");
            assert_eq!(NetworkOptions { malformed: Vec::new(), ..line }, NetworkOptions::default(), "{word}");
        }
        let line = NetworkOptions::parse(b"hostname=good hostname=b\xff gateway=\xff ip==dhcp");
        assert_eq!((line.hostname.as_deref(), line.malformed.len()), (Some("good"), 3));
    }

    #[test]
    fn other_words_are_passed_over() {
        assert_eq!(parse("ip gateway eth0=10.0.0.1 iphostname=a =dhcp"), NetworkOptions::default());
    }

    #[test]
    fn names_of_hosts_are_limited() {
        let label = "a".repeat(63);
        assert!(is_hostname(&label) && !is_hostname(&(label.clone() + "a")));
        let long = [label.as_str(); 4].join(".");
        assert!(!is_hostname(&long) && is_hostname(&long[2..]));
    }

    fn any_ip() -> impl Strategy<Value = Ip> {
        let any_cidr = (any::<IpAddr>(), 0u8..=32).prop_map(|(address, prefix)| Cidr { address, prefix });
        prop_oneof![1 => Just(Ip::Dhcp), 4 => any_cidr.prop_map(Ip::Address)]
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_parsed_again_or_said_to_be_malformed(
            ip in vec(any_ip(), 0..4),
            gateways in vec(any::<IpAddr>(), 0..4),
            nameservers in vec(any::<IpAddr>(), 0..4),
            hostname in "[a-z0-9]{1,9}(\\.[a-z0-9]{1,9}){0,3}",
        ) {
            let mut encoder = Encoder::new();
            ip.iter().for_each(|&ip| encoder.ip(ip));
            gateways.iter().for_each(|&gateway| encoder.gateway(gateway));
            nameservers.iter().for_each(|&nameserver| encoder.nameserver(nameserver));
            encoder.hostname(&hostname);
            let line = NetworkOptions::parse(&encoder.finish());
            let count = ip.len() + gateways.len() + nameservers.len();
            prop_assert_eq!(line.ip.len() + line.gateways.len() + line.nameservers.len() + line.malformed.len(), count);
            prop_assert!(line.ip.iter().all(|found| ip.contains(found)));
            prop_assert!(line.gateways.iter().all(|found| gateways.contains(found)));
            prop_assert_eq!(line.hostname, Some(hostname));
        }

        #[test]
        fn an_address_with_a_prefix_is_read_as_it_is_written(bytes: [u8; 4], prefix in 0u8..=40) {
            let address = IpAddr::from(bytes);
            let text = alloc::format!("{address}/{prefix}");
            let parsed = text.parse::<Cidr>();
            let is_good = prefix <= 32 && bytes != [0; 4] && bytes != [255; 4] && !address.is_multicast();
            prop_assert_eq!(parsed, is_good.then_some(Cidr { address, prefix }).ok_or_else(|| {
                String::from("`") + &text + "` is no address with a prefix, such as 10.0.0.2/24 or fd00::2/64"
            }));
        }
    }
}
