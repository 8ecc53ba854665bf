//! MAC addresses.

use std::fmt;
use std::str::FromStr;

/// A unicast MAC address. It is not zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacAddress([u8; 6]);

impl MacAddress {
    /// Address that QEMU gives to a guest's first network device by default.
    pub const QEMU: Self = Self([0x52, 0x54, 0, 0x12, 0x34, 0x56]);

    /// Returns the bytes of the address in transmission order.
    #[must_use]
    pub const fn bytes(self) -> [u8; 6] {
        self.0
    }

    /// Returns a locally administered unicast address that is made from random bytes.
    #[must_use]
    pub const fn local([_, a, b, c, d, e]: [u8; 6]) -> Self {
        Self([0x02, a, b, c, d, e])
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, f] = self.0;
        write!(out, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}")
    }
}

impl FromStr for MacAddress {
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
    use super::MacAddress;
    use proptest::prelude::*;

    #[test]
    fn multicast_zero_and_malformed_addresses_are_rejected() {
        for text in ["", "52:54:00:12:34", "52:54:00:12:34:56:78", "5:54:00:12:34:56", "+5:54:00:12:34:56"] {
            assert!(text.parse::<MacAddress>().unwrap_err().contains("no MAC address,"), "{text}");
        }
        for text in ["00:00:00:00:00:00", "ff:ff:ff:ff:ff:ff"] {
            assert!(text.parse::<MacAddress>().unwrap_err().contains("of one host"), "{text}");
        }
        assert_eq!(MacAddress::local([0xff; 6]).to_string(), "02:ff:ff:ff:ff:ff");
    }

    proptest! {
        #[test]
        fn address_survives_formatting_and_parsing(bytes: [u8; 6]) {
            let mac = MacAddress::local(bytes);
            prop_assert_eq!(mac.to_string().parse(), Ok(mac));
        }
    }
}
