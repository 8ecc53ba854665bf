//! Numeric addresses as `getaddrinfo` reads them: for IPv4 the forms of `inet_aton`, for IPv6 RFC 4291 and a
//! scope.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Address;

/// Parses a numeric address. Returns `None` if the text is not one.
#[must_use]
pub fn parse(text: &[u8]) -> Option<Address> {
    if let Some(address) = v4(text) {
        return Some(IpAddr::V4(address).into());
    }
    let mut parts = text.splitn(2, |&byte| byte == b'%');
    let ip: Ipv6Addr = str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    let scope = parts.next().map_or(Some(0), |scope| number(scope, 10))?;
    Some(Address { ip: ip.into(), scope })
}

/// Parses an IPv4 address in one to four parts. The last part fills the remaining bytes. Each part is
/// decimal, octal after `0`, or hexadecimal after `0x` (POSIX, `inet_addr`).
fn v4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut parts = text.split(|&byte| byte == b'.');
    let mut last = part(parts.next()?)?;
    let mut address = 0;
    for shift in [24, 16, 8] {
        let Some(next) = parts.next() else { break };
        address |= u32::from(u8::try_from(last).ok()?) << shift;
        last = part(next)?;
        if last >> shift != 0 {
            return None;
        }
    }
    parts.next().is_none().then(|| Ipv4Addr::from_bits(address | last))
}

/// A part of an IPv4 address.
fn part(text: &[u8]) -> Option<u32> {
    match text {
        [b'0', b'x' | b'X', digits @ ..] => number(digits, 16),
        [b'0', digits @ ..] if !digits.is_empty() => number(digits, 8),
        digits => number(digits, 10),
    }
}

/// Parses a number that consists only of digits. This is checked here, because the parser of `core` also
/// accepts a sign.
fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let is_number = digits.iter().all(u8::is_ascii_alphanumeric);
    is_number.then(|| u32::from_str_radix(str::from_utf8(digits).ok()?, radix).ok())?
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::Address;
    use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use proptest::prelude::*;
    use std::format;
    use std::string::{String, ToString};
    use std::vec::Vec;

    fn spelled(text: &str) -> Option<String> {
        parse(text.as_bytes()).map(|address| address.ip.to_string())
    }

    #[test]
    fn forms_of_inet_aton() {
        for (text, address) in [
            ("127.1", "127.0.0.1"),
            ("0x7f000001", "127.0.0.1"),
            ("2130706433", "127.0.0.1"),
            ("017700000001", "127.0.0.1"),
            ("0177.0.0.01", "127.0.0.1"),
            ("0X7F.0x0.1", "127.0.0.1"),
            ("10.1.65535", "10.1.255.255"),
            ("10.16777215", "10.255.255.255"),
            ("1.2.3.4", "1.2.3.4"),
            ("00.0.0.0", "0.0.0.0"),
            ("0", "0.0.0.0"),
            ("4294967295", "255.255.255.255"),
        ] {
            assert_eq!(spelled(text).as_deref(), Some(address), "{text}");
        }
    }

    #[test]
    fn what_is_no_address() {
        for text in [
            "",
            ".",
            "1.",
            ".1",
            "1..2",
            "1.2.3.4.",
            "1.2.3.4.5",
            "1.2.3.256",
            "256.1",
            "1.16777216",
            "1.2.65536",
            "4294967296",
            "08",
            "0x",
            "0xg",
            "1.2.3.0x",
            "1.2.3.08",
            "-1",
            "+1",
            "1.+1",
            "1 ",
            " 1",
            "1.2.3.4 ",
            "1a",
            "0b1",
            "1.2.3.4%1",
            "::1%",
            "::1%x",
            "::1%+1",
            "::1%4294967296",
            "1::2::3",
            "[::1]",
            "a.test",
        ] {
            assert_eq!(spelled(text), None, "{text:?}");
        }
    }

    #[test]
    fn scope_is_an_index() {
        let address = |ip: Ipv6Addr, scope| Some(Address { ip: ip.into(), scope });
        let link_local = "fe80::1".parse().unwrap();
        assert_eq!(parse(b"fe80::1%1"), address(link_local, 1));
        assert_eq!(parse(b"fe80::1"), address(link_local, 0));
        assert_eq!(parse(b"::1%4294967295"), address(Ipv6Addr::LOCALHOST, u32::MAX));
    }

    proptest! {
        #[test]
        fn addresses_of_the_usual_form_are_the_same(v4: [u8; 4], v6: [u8; 16]) {
            for address in [IpAddr::from(v4), IpAddr::from(v6)] {
                prop_assert_eq!(parse(address.to_string().as_bytes()), Some(address.into()));
            }
        }

        #[test]
        fn each_base_spells_the_same(bits: u32, first: u8, rest in 0_u32..1 << 24) {
            let whole = Some(Ipv4Addr::from_bits(bits).to_string());
            for text in [format!("{bits}"), format!("{bits:#x}"), format!("0{bits:o}")] {
                prop_assert_eq!(&spelled(&text), &whole);
            }
            let two = Ipv4Addr::from_bits(u32::from(first) << 24 | rest).to_string();
            prop_assert_eq!(spelled(&format!("{first:#x}.{rest}")), Some(two));
        }

        #[test]
        fn any_bytes_are_read(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
