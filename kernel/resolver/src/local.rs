//! Names that every machine knows.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::hosts::without_dot;

/// The addresses of the loopback, for `localhost` and names below it (RFC 6761 §6.3); name servers are not
/// asked for these.
#[must_use]
pub fn find(name: &[u8]) -> Option<[IpAddr; 2]> {
    let last = without_dot(name).rsplit(|&byte| byte == b'.').next()?;
    let is_local = last.eq_ignore_ascii_case(b"localhost");
    is_local.then_some([IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::LOCALHOST)])
}

#[cfg(test)]
mod tests {
    use super::find;

    #[test]
    fn localhost_and_names_below_it_are_local() {
        for name in ["localhost", "LocalHost.", "a.b.localhost"] {
            assert!(find(name.as_bytes()).is_some(), "{name}");
        }
        for name in ["", ".", "mylocalhost", "localhost.test", "localhost.."] {
            assert!(find(name.as_bytes()).is_none(), "{name}");
        }
    }
}
