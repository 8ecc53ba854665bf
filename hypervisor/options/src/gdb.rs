//! Address on which a machine waits for gdb: the value of `--gdb`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

/// Address on which a machine waits for gdb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GdbAddress {
    /// TCP port of the host's loopback; 0 is any free one.
    Port(u16),
    /// UNIX socket that is made at this path.
    Path(PathBuf),
}

impl GdbAddress {
    /// Returns the value of `--gdb` that [`FromStr`] parses into this address.
    #[must_use]
    pub fn to_argument(&self) -> OsString {
        match self {
            Self::Port(port) => port.to_string().into(),
            Self::Path(path) => path.into(),
        }
    }
}

impl FromStr for GdbAddress {
    type Err = &'static str;

    /// A path must contain a slash, so that a mistyped port does not create a socket.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.contains('/') {
            return Ok(Self::Path(text.into()));
        }
        text.parse().map(Self::Port).map_err(|_| "write a port, 0 to 65535, or a path with a slash, ./gdb")
    }
}

#[cfg(test)]
mod tests {
    use super::GdbAddress;

    #[test]
    fn text_with_a_slash_is_a_path_and_a_number_a_port() {
        for (text, address) in [
            ("0", GdbAddress::Port(0)),
            ("65535", GdbAddress::Port(65535)),
            ("./1234", GdbAddress::Path("./1234".into())),
            ("/run/web gdb", GdbAddress::Path("/run/web gdb".into())),
        ] {
            assert_eq!(text.parse(), Ok(address.clone()));
            assert_eq!(address.to_argument(), text);
        }
        for text in ["", "65536", "-1", "gdb", ":1234", "12a4"] {
            assert!(text.parse::<GdbAddress>().unwrap_err().contains("./gdb"), "{text}");
        }
    }
}
