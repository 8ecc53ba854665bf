//! The record of a row's behaviour, in a normal form: nothing in it differs between runs or machines.

use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// A record of observations, in order.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    text: String,
}

impl Transcript {
    /// Records an observation.
    pub(crate) fn add(&mut self, what: &str, value: impl Show) {
        if !self.text.is_empty() {
            self.text.push_str(", ");
        }
        self.text.push_str(what);
        self.text.push('=');
        self.text.push_str(&value.show());
    }

    /// Returns the record, with the error that stopped the row, if any.
    pub(crate) fn finish(mut self, outcome: io::Result<()>) -> String {
        if let Err(error) = outcome {
            self.add("stopped", Err::<(), _>(error));
        }
        self.text
    }
}

/// A value that can be recorded.
pub(crate) trait Show {
    /// Returns the normal form.
    fn show(&self) -> String;
}

impl<T: Show> Show for io::Result<T> {
    fn show(&self) -> String {
        match self {
            Ok(value) => value.show(),
            Err(error) => error.show(),
        }
    }
}

/// An error is recorded by its kind, which programs match on, and its number, or its text if it is std's own.
impl Show for io::Error {
    fn show(&self) -> String {
        let kind = self.kind();
        match self.raw_os_error() {
            Some(number) => format!("{kind:?}({})", errno(number)),
            None => format!("{kind:?}({self})"),
        }
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self) -> String {
        self.as_ref().map_or_else(|| "none".to_owned(), Show::show)
    }
}

impl Show for () {
    fn show(&self) -> String {
        "ok".to_owned()
    }
}

impl Show for bool {
    fn show(&self) -> String {
        let word = if *self { "yes" } else { "no" };
        word.to_owned()
    }
}

impl Show for &str {
    fn show(&self) -> String {
        (*self).to_owned()
    }
}

impl Show for String {
    fn show(&self) -> String {
        self.clone()
    }
}

/// Bytes are recorded as text; no bytes are the end of a stream.
impl Show for Vec<u8> {
    fn show(&self) -> String {
        format!("\"{}\"", self.escape_ascii())
    }
}

impl Show for Duration {
    fn show(&self) -> String {
        format!("{self:?}")
    }
}

/// An address is recorded without its port, unless that is 0.
impl Show for SocketAddr {
    fn show(&self) -> String {
        let mut text = self.ip().to_string();
        if let Self::V6(address) = self
            && address.scope_id() != 0
        {
            // Formatting into a string does not fail.
            let _: Result<(), _> = write!(text, "%{}", address.scope_id());
        }
        text.push_str(if self.port() == 0 { ":0" } else { ":PORT" });
        text
    }
}

/// Numbers are recorded as they are displayed.
macro_rules! show_numbers {
    ($($number:ty),*) => {
        $(impl Show for $number {
            fn show(&self) -> String {
                self.to_string()
            }
        })*
    };
}

show_numbers!(i32, u32, u64, usize);

impl<T: Show, U: Show> Show for (T, U) {
    fn show(&self) -> String {
        format!("{} {}", self.0.show(), self.1.show())
    }
}

/// Names of the errors of sockets; their numbers are the same on Linux and on this kernel.
fn errno(number: i32) -> String {
    let name = match number {
        1 => "EPERM",
        2 => "ENOENT",
        4 => "EINTR",
        9 => "EBADF",
        11 => "EAGAIN",
        12 => "ENOMEM",
        13 => "EACCES",
        14 => "EFAULT",
        17 => "EEXIST",
        19 => "ENODEV",
        22 => "EINVAL",
        24 => "EMFILE",
        25 => "ENOTTY",
        29 => "ESPIPE",
        32 => "EPIPE",
        33 => "EDOM",
        38 => "ENOSYS",
        40 => "ELOOP",
        88 => "ENOTSOCK",
        89 => "EDESTADDRREQ",
        90 => "EMSGSIZE",
        92 => "ENOPROTOOPT",
        93 => "EPROTONOSUPPORT",
        94 => "ESOCKTNOSUPPORT",
        95 => "EOPNOTSUPP",
        97 => "EAFNOSUPPORT",
        98 => "EADDRINUSE",
        99 => "EADDRNOTAVAIL",
        100 => "ENETDOWN",
        101 => "ENETUNREACH",
        103 => "ECONNABORTED",
        104 => "ECONNRESET",
        105 => "ENOBUFS",
        106 => "EISCONN",
        107 => "ENOTCONN",
        110 => "ETIMEDOUT",
        111 => "ECONNREFUSED",
        113 => "EHOSTUNREACH",
        114 => "EALREADY",
        115 => "EINPROGRESS",
        _ => return format!("E{number}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::net::SocketAddr;

    use super::{Show, Transcript};

    #[test]
    fn record_ends_with_error() {
        let mut record = Transcript::default();
        record.add("read", Ok::<_, io::Error>(b"a\n".to_vec()));
        let text = record.finish(Err(io::Error::from_raw_os_error(111)));
        assert_eq!(text, r#"read="a\n", stopped=ConnectionRefused(ECONNREFUSED)"#);
    }

    #[test]
    fn ports_are_omitted() {
        let show = |text: &str| text.parse::<SocketAddr>().unwrap().show();
        assert_eq!(show("127.0.0.1:1234"), "127.0.0.1:PORT");
        assert_eq!(show("[::1%3]:0"), "::1%3:0");
    }
}
