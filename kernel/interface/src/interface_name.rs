//! Names of a host's network interfaces.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::str::FromStr;

/// Most bytes of an interface's name (Linux's IFNAMSIZ, without the zero).
const MAX_NAME: usize = 15;

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

#[cfg(test)]
mod tests {
    use super::InterfaceName;
    use alloc::string::String;
    use proptest::prelude::*;

    #[test]
    fn names_of_interfaces_are_those_of_linux() {
        for name in ["tap0", "br-lan.7", "exactly15bytes_"] {
            assert_eq!(name.parse::<InterfaceName>().unwrap().as_str(), name);
        }
        for name in ["", ".", "..", "a/b", "a b", "tap%d", "eth0:1", "sixteen_bytes_xx", "täp"] {
            assert!(name.parse::<InterfaceName>().is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_strange(text: String) {
            if let Ok(name) = text.parse::<InterfaceName>() {
                prop_assert!(name.as_str().len() <= 15);
            }
        }
    }
}
