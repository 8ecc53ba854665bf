//! Configuration of lookups: the servers to ask, and how. It comes from `/etc/resolv.conf` and from the
//! network's own configuration (DHCP, command line).
//!
//! The format and the defaults are glibc's, since programs and images assume them: `nameserver`, `search`,
//! and the options `ndots`, `timeout`, `attempts` and `rotate`. Unknown lines are ignored. All lists have
//! fixed limits, because the text comes from outside.

use alloc::vec::Vec;

use hermit_interface::net::MAX_NAMESERVERS;

use crate::{Address, LookupError, Name, numeric};

/// Maximum number of domains in the search list, as in Kubernetes.
const MAX_DOMAINS: usize = 32;

/// Maxima of the options of `/etc/resolv.conf`, which are glibc's.
const MAX_NDOTS: u32 = 15;
const MAX_TIMEOUT_S: u32 = 30;
const MAX_ATTEMPTS: u32 = 5;

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// Configuration of a lookup by name servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// Servers, in the order in which they are asked; at most [`MAX_NAMESERVERS`].
    pub servers: Vec<Address>,
    /// Domains that complete a name; at most 32.
    pub search: Vec<Name>,
    /// A name with at least this number of dots is first tried as a complete name.
    pub ndots: u32,
    /// Longest time between two datagrams, and for a connection, in nanoseconds.
    pub timeout: u64,
    /// Number of timeouts after which a lookup is given up.
    pub attempts: u32,
    /// True if each lookup begins with another server (`options rotate`).
    pub rotates: bool,
    /// Index of the server that is asked first.
    pub first: usize,
}

impl Default for Configuration {
    /// The configuration without servers. The options have the defaults of glibc.
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
            timeout: 5 * NANOSECONDS_PER_SECOND,
            attempts: 2,
            rotates: false,
            first: 0,
        }
    }
}

impl Configuration {
    /// Reads the text of `/etc/resolv.conf`. Lines and options that are not known are ignored, as in other
    /// resolvers. Servers and search list are empty if the text has none.
    ///
    /// # Errors
    ///
    /// [`LookupError::Memory`].
    pub fn parse(text: &[u8]) -> Result<Self, LookupError> {
        let mut configuration = Self::default();
        for line in text.split(|&byte| byte == b'\n').filter(|line| !line.starts_with(b";")) {
            let mut words = words(line);
            match words.next() {
                Some(b"nameserver") => {
                    let server = words.next().and_then(numeric::parse);
                    server.into_iter().try_for_each(|server| configuration.add_server(server))?;
                }
                // If there are several lines, the last one is used.
                Some(b"search" | b"domain") => {
                    configuration.search.clear();
                    words
                        .filter_map(Name::from_text)
                        .try_for_each(|domain| configuration.add_domain(domain))?;
                }
                Some(b"options") => words.for_each(|option| configuration.set_option(option)),
                _ => {}
            }
        }
        Ok(configuration)
    }

    /// Adds a server, unless there are already [`MAX_NAMESERVERS`] servers.
    ///
    /// # Errors
    ///
    /// [`LookupError::Memory`].
    pub fn add_server(&mut self, server: Address) -> Result<(), LookupError> {
        add(&mut self.servers, server, MAX_NAMESERVERS)
    }

    /// Adds a domain to the search list, unless the list is full.
    ///
    /// # Errors
    ///
    /// [`LookupError::Memory`].
    pub fn add_domain(&mut self, domain: Name) -> Result<(), LookupError> {
        add(&mut self.search, domain, MAX_DOMAINS)
    }

    /// Adds the domains of a list in the format of DNS messages, as in a DHCP option (RFC 3397 §2). Domains
    /// may be compressed within the list. Everything after an invalid domain is ignored.
    ///
    /// # Errors
    ///
    /// [`LookupError::Memory`].
    pub fn add_domains(&mut self, list: &[u8]) -> Result<(), LookupError> {
        let mut offset = 0;
        while let Some((domain, end)) = Name::read(list, offset).filter(|_| self.search.len() < MAX_DOMAINS) {
            offset = end;
            // The root stands for the name itself.
            if domain.labels().next().is_some() {
                self.add_domain(domain)?;
            }
        }
        Ok(())
    }

    fn set_option(&mut self, option: &[u8]) {
        let value = |name: &[u8], max: u32| {
            let digits = str::from_utf8(option.strip_prefix(name)?).ok()?;
            digits.parse::<u32>().ok().map(|value| value.min(max))
        };
        if let Some(ndots) = value(b"ndots:", MAX_NDOTS) {
            self.ndots = ndots;
        } else if let Some(timeout) = value(b"timeout:", MAX_TIMEOUT_S) {
            self.timeout = u64::from(timeout.max(1)) * NANOSECONDS_PER_SECOND;
        } else if let Some(attempts) = value(b"attempts:", MAX_ATTEMPTS) {
            self.attempts = attempts.max(1);
        } else if option == b"rotate" {
            self.rotates = true;
        }
    }
}

/// Words of a line, up to a comment.
pub(crate) fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let text = line.split(|&byte| byte == b'#').next().unwrap_or_default();
    text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Adds an element, unless there are already `max` elements.
fn add<T>(list: &mut Vec<T>, element: T, max: usize) -> Result<(), LookupError> {
    if list.len() < max {
        list.try_reserve(1)?;
        list.push(element);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Configuration, MAX_DOMAINS};
    use crate::message::tests::name;
    use proptest::prelude::*;
    use std::format;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn parsed(text: &str) -> Configuration {
        Configuration::parse(text.as_bytes()).unwrap()
    }

    fn servers(text: &str) -> Vec<String> {
        parsed(text).servers.iter().map(|server| server.ip.to_string()).collect()
    }

    #[test]
    fn file_of_a_cluster() {
        let text = "search a.svc.cluster.local svc.cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n";
        let found = parsed(text);
        assert_eq!(found.search, [name("a.svc.cluster.local"), name("svc.cluster.local")]);
        assert_eq!((servers(text), found.ndots), (["10.96.0.10".into()].into(), 5));
        assert_eq!((found.timeout, found.attempts, found.rotates), (5_000_000_000, 2, false));
    }

    #[test]
    fn comments_and_unknown_lines_are_ignored() {
        let text = "# nameserver 1.1.1.1\n; nameserver 1.1.1.2\nnameserver\t::1 # this one\r\nsortlist 10.0.0.0\n\
                    nameserver x\nnameserver\nnameserver fe80::1%2\noptions edns0 trust-ad ndots:x attempts:\n";
        assert_eq!(servers(text), ["::1", "fe80::1"]);
        let expected = Configuration { servers: parsed(text).servers, ..Configuration::default() };
        assert_eq!(parsed(text), expected);
    }

    #[test]
    fn last_search_list_counts() {
        assert_eq!(parsed("search a b\ndomain c\n").search, [name("c")]);
        assert_eq!(parsed("domain c\nsearch a .. b").search, [name("a"), name("b")]);
        assert_eq!(parsed("search a\nsearch\n").search, []);
    }

    #[test]
    fn options_have_bounds() {
        let found = parsed("options rotate timeout:99 attempts:99 ndots:99");
        assert_eq!((found.timeout, found.attempts, found.ndots), (30_000_000_000, 5, 15));
        assert!(found.rotates);
        let found = parsed("options timeout:0 attempts:0\noptions ndots:0");
        assert_eq!((found.timeout, found.attempts, found.ndots), (1_000_000_000, 1, 0));
    }

    #[test]
    fn lists_are_bounded() {
        assert_eq!(servers(&"nameserver 1.1.1.1\n".repeat(9)).len(), 4);
        let domains: Vec<_> = (0..99).map(|index| format!("d{index}")).collect();
        assert_eq!(parsed(&format!("search {}", domains.join(" "))).search.len(), MAX_DOMAINS);
        let mut found = Configuration::default();
        found.add_domains(&b"\x01a\0".repeat(99)).unwrap();
        assert_eq!(found.search.len(), MAX_DOMAINS);
    }

    #[test]
    fn search_option_of_dhcp() {
        let mut found = Configuration::default();
        // The example of RFC 3397, section 2.
        let list = b"\x03eng\x05apple\x03com\0\x09marketing\xc0\x04";
        found.add_domains(list).unwrap();
        assert_eq!(found.search, [name("eng.apple.com"), name("marketing.apple.com")]);
        found.add_domains(b"\0\0\x01b\0\x05").unwrap();
        assert_eq!(found.search[2..], [name("b")]);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text: Vec<u8>, list: Vec<u8>) {
            let mut found = Configuration::parse(&text).unwrap();
            found.add_domains(&list).unwrap();
            prop_assert!(found.search.len() <= MAX_DOMAINS);
        }
    }
}
