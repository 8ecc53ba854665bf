//! Names of the host's network interfaces.

use alloc::borrow::ToOwned;
use alloc::format;
use alloc::string::String;
use core::str::FromStr;

/// Maximum length of an interface name in bytes (Linux's `IFNAMSIZ` without the terminating NUL).
const MAX_NAME: usize = 15;

/// Name of a network interface of the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceName(String);

impl InterfaceName {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for InterfaceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // What Linux accepts, except `%`, which is for name patterns such as `tap%d`.
        let is_valid = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'/' | b':' | b'%');
        let is_name = (1..=MAX_NAME).contains(&text.len()) && text.bytes().all(is_valid);
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
    fn interface_names_are_those_of_linux() {
        for name in ["tap0", "br-lan.7", "exactly15bytes_"] {
            assert_eq!(name.parse::<InterfaceName>().unwrap().as_str(), name);
        }
        for name in ["", ".", "..", "a/b", "a b", "tap%d", "eth0:1", "sixteen_bytes_xx", "täp"] {
            assert!(name.parse::<InterfaceName>().is_err(), "{name}");
        }
    }

    proptest! {
        #[test]
        fn parse_accepts_any_text_without_panic(text: String) {
            if let Ok(name) = text.parse::<InterfaceName>() {
                prop_assert!(name.as_str().len() <= 15);
            }
        }
    }
}
