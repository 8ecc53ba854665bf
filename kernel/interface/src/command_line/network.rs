//! Options that configure the network.
//!
//! | option | |
//! | --- | --- |
//! | `ip=dhcp` | addresses are configured by DHCP |
//! | `ip=ADDRESS/PREFIX` | a static address with its prefix length, `10.0.0.2/24` or `fd00::2/64`; may be repeated |
//! | `gateway=ADDRESS` | a default gateway; may be repeated |
//! | `nameserver=ADDRESS` | a DNS server; may be repeated |
//! | `search=DOMAIN` | a domain that completes names; may be repeated |
//! | `hostname=NAME` | the guest's host name |
//! | `congestion=NAME` | the congestion control of TCP: `cubic`, `reno` or `bbr` |
//! | `host=gateway` | `host.hermit.internal` is the default gateway |
//! | `host=ADDRESS` | `host.hermit.internal` is this address |

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::str;

use super::{Encoder, WordIter};
use crate::net::CongestionControl;

/// Maximum length of a host name in bytes (RFC 1035, section 2.3.4: 255 octets with the length octet of the
/// first label and the root label).
const MAX_HOSTNAME: usize = 253;

/// Maximum length of a label in bytes (RFC 1035, section 2.3.4).
const MAX_LABEL: usize = 63;

/// Source of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    /// DHCP.
    Dhcp,
    /// A static address.
    Address(Cidr),
}

/// A unicast address with the prefix length of its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    /// The address: not unspecified, multicast or broadcast.
    pub address: IpAddr,
    /// Prefix length in bits: at most 32 for IPv4, 128 for IPv6.
    pub prefix: u8,
}

impl str::FromStr for Cidr {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || format!("`{text}` is no address with a prefix, such as 10.0.0.2/24 or fd00::2/64");
        let (address, prefix) = text.split_once('/').ok_or_else(help)?;
        let address = host_address(address).ok_or_else(help)?;
        let max = if address.is_ipv4() { 32 } else { 128 };
        let is_number = !prefix.is_empty() && prefix.bytes().all(|byte| byte.is_ascii_digit());
        let prefix = prefix.parse().ok().filter(|&prefix| is_number && prefix <= max).ok_or_else(help)?;
        Ok(Self { address, prefix })
    }
}

/// Address at which the guest reaches its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAddress {
    /// The address of the default gateway, of each IP version.
    Gateway,
    /// This address.
    Address(IpAddr),
}

impl Encoder {
    /// Adds a static address, or DHCP.
    pub fn ip(&mut self, ip: Ip) {
        match ip {
            Ip::Dhcp => self.option(b"ip=", b"dhcp"),
            Ip::Address(Cidr { address, prefix }) => {
                self.option(b"ip=", format!("{address}/{prefix}").as_bytes());
            }
        }
    }

    /// Adds a default gateway.
    pub fn gateway(&mut self, address: IpAddr) {
        self.option(b"gateway=", format!("{address}").as_bytes());
    }

    /// Adds a DNS server.
    pub fn nameserver(&mut self, address: IpAddr) {
        self.option(b"nameserver=", format!("{address}").as_bytes());
    }

    /// Adds a domain to the search list.
    pub fn search(&mut self, domain: &str) {
        self.option(b"search=", domain.as_bytes());
    }

    /// Sets the host name.
    pub fn hostname(&mut self, name: &str) {
        self.option(b"hostname=", name.as_bytes());
    }

    /// Sets the congestion control of TCP.
    pub fn congestion(&mut self, control: CongestionControl) {
        self.option(b"congestion=", control.name().as_bytes());
    }

    /// Sets the address of [`HOST_NAME`](crate::net::HOST_NAME).
    pub fn host(&mut self, host: HostAddress) {
        match host {
            HostAddress::Gateway => self.option(b"host=", b"gateway"),
            HostAddress::Address(address) => self.option(b"host=", format!("{address}").as_bytes()),
        }
    }
}

/// The network options of a command line. Parsed only by programs that use the network.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct NetworkOptions {
    /// Sources of addresses, in the order of the line; empty if there is no `ip` option.
    pub ip: Vec<Ip>,
    /// Default gateways.
    pub gateways: Vec<IpAddr>,
    /// DNS servers.
    pub nameservers: Vec<IpAddr>,
    /// Domains of the search list, each valid according to [`is_hostname`].
    pub search: Vec<String>,
    /// Host name, valid according to [`is_hostname`].
    pub hostname: Option<String>,
    /// Address of [`HOST_NAME`](crate::net::HOST_NAME).
    pub host: Option<HostAddress>,
    /// The congestion control of connections that choose none.
    pub congestion: Option<CongestionControl>,
    /// Network options with invalid values, as written.
    pub malformed: Vec<Vec<u8>>,
}

impl NetworkOptions {
    /// Parses the network options of a command line.
    #[must_use]
    pub fn parse(line: &[u8]) -> Self {
        let mut parsed = Self::default();
        options(line).for_each(|word| parsed.add(&word));
        parsed
    }

    /// Adds a word if it is a network option; an invalid one goes to [`Self::malformed`].
    fn add(&mut self, word: &[u8]) {
        let Some(end) = word.iter().position(|&byte| byte == b'=') else { return };
        let (name, value) = word.split_at(end);
        // Without the equals sign.
        let value = str::from_utf8(value).ok().and_then(|value| value.get(1..));
        let is_valid = match name {
            b"ip" => push(&mut self.ip, value.and_then(ip)),
            b"gateway" => push(&mut self.gateways, value.and_then(host_address)),
            b"nameserver" => push(&mut self.nameservers, value.and_then(host_address)),
            b"search" => {
                let domain = value.filter(|domain| is_hostname(domain)).map(ToOwned::to_owned);
                push(&mut self.search, domain)
            }
            b"host" => {
                let host = value.and_then(host);
                let is_valid = host.is_some();
                self.host = host.or(self.host);
                is_valid
            }
            b"congestion" => {
                let control = value.and_then(|name| CongestionControl::from_name(name.as_bytes()));
                self.congestion = control.or(self.congestion);
                control.is_some()
            }
            b"hostname" => {
                let name = value.filter(|name| is_hostname(name)).map(ToOwned::to_owned);
                let is_valid = name.is_some();
                self.hostname = name.or_else(|| self.hostname.take());
                is_valid
            }
            _ => return,
        };
        if !is_valid {
            self.malformed.push(word.to_vec());
        }
    }
}

/// The host name that a command line gives, as in [`NetworkOptions`], without parsing its other options.
#[must_use]
pub fn hostname(line: &[u8]) -> Option<String> {
    let names = options(line).filter_map(|word| {
        let name = str::from_utf8(word.strip_prefix(b"hostname=")?).ok()?;
        is_hostname(name).then(|| name.to_owned())
    });
    names.last()
}

/// The words before `--`.
fn options(line: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    let words = WordIter { rest: line }.take_while(|(word, quoted)| word != b"--" || *quoted);
    words.map(|(word, _)| word)
}

/// Adds a value to a list, if there is one; returns whether there is.
fn push<T>(list: &mut Vec<T>, value: Option<T>) -> bool {
    let before = list.len();
    list.extend(value);
    list.len() > before
}

fn ip(text: &str) -> Option<Ip> {
    if text == "dhcp" { Some(Ip::Dhcp) } else { text.parse().ok().map(Ip::Address) }
}

fn host(text: &str) -> Option<HostAddress> {
    if text == "gateway" { Some(HostAddress::Gateway) } else { host_address(text).map(HostAddress::Address) }
}

/// Parses a unicast address; `None` if the text is not an address, or one that is unspecified, multicast or
/// broadcast.
#[must_use]
pub fn host_address(text: &str) -> Option<IpAddr> {
    let address = text.parse::<IpAddr>().ok()?;
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    (!address.is_unspecified() && !address.is_multicast() && !is_broadcast).then_some(address)
}

/// Returns true if a text is a valid host name (RFC 1123, section 2.1): labels of letters, digits and inner
/// hyphens, separated by dots.
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
    use super::{Cidr, CongestionControl, HostAddress, Ip, NetworkOptions, hostname, is_hostname};
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
    fn network_options_are_parsed() {
        let line = parse(
            "ip=dhcp ip=10.0.0.2/24 ip=fd00::2/64 gateway=10.0.0.1 gateway=fe80::1 nameserver=1.1.1.1 \
             nameserver=2606:4700:4700::1111 hostname=web-1.example.org search=a.test search=b congestion=bbr -- ip=dhcp",
        );
        let cidr = |text, prefix| Ip::Address(Cidr { address: address(text), prefix });
        assert_eq!(line.ip, [Ip::Dhcp, cidr("10.0.0.2", 24), cidr("fd00::2", 64)]);
        assert_eq!(line.gateways, [address("10.0.0.1"), address("fe80::1")]);
        assert_eq!(line.nameservers, [address("1.1.1.1"), address("2606:4700:4700::1111")]);
        assert_eq!(line.hostname.as_deref(), Some("web-1.example.org"));
        assert_eq!(line.search, ["a.test", "b"]);
        assert_eq!(line.congestion, Some(CongestionControl::Bbr));
        assert_eq!(line.malformed.len(), 0);
        assert_eq!(line.host, None);
        assert_eq!(parse("host=gateway").host, Some(HostAddress::Gateway));
        let other = HostAddress::Address(address("10.0.0.1"));
        assert_eq!(parse("host=gateway host=10.0.0.1 host=x").host, Some(other));
        for host in [HostAddress::Gateway, other] {
            let mut encoder = Encoder::new();
            encoder.host(host);
            assert_eq!(NetworkOptions::parse(&encoder.finish()).host, Some(host));
        }
        for line in ["hostname=a hostname=b", "hostname=a hostname=b hostname=-c -- hostname=d"] {
            assert_eq!(parse(line).hostname.as_deref(), Some("b"));
            assert_eq!(hostname(line.as_bytes()).as_deref(), Some("b"));
        }
        assert_eq!(hostname(b"hostnames=a -- hostname=b"), None);
    }

    #[test]
    fn invalid_options_are_malformed() {
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
            "congestion=",
            "congestion=vegas",
            "hostname=",
            "host=",
            "host=0.0.0.0",
            "host=example.org",
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
    fn other_words_are_ignored() {
        assert_eq!(parse("ip gateway eth0=10.0.0.1 iphostname=a =dhcp"), NetworkOptions::default());
    }

    #[test]
    fn host_name_and_label_lengths_are_limited() {
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
        fn encoded_options_are_parsed_or_malformed(
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
        fn cidr_parses_unicast_ipv4_addresses(bytes: [u8; 4], prefix in 0u8..=40) {
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
