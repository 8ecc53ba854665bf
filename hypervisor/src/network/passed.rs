//! Sockets that the program that starts uhyve has opened and passes to it (`--listen-fd`).
//!
//! With passed sockets, a service manager binds the ports, which may be below 1024. It keeps them open when
//! the guest is restarted, so clients wait meanwhile (sd_listen_fds(3)).

use std::env;
use std::num::NonZeroU16;
use std::os::fd::{OwnedFd, RawFd};
use std::process;
use std::str::FromStr;
use std::sync::Arc;

use crate::sandbox;

/// Number of the first descriptor that a service manager passes (`SD_LISTEN_FDS_START`).
const FIRST: RawFd = 3;

/// Value of `--listen-fd`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenFd {
    descriptor: Descriptor,
    guest: NonZeroU16,
}

/// A descriptor of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Descriptor {
    Number(RawFd),
    /// Name that the service manager has given to it.
    Name(String),
}

impl FromStr for ListenFd {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "`{text}` is no socket and port: write FD:GUEST, such as 3:80, or NAME:GUEST, such as web:80 for \
                 FileDescriptorName=web of systemd"
            )
        };
        let (descriptor, guest) = text.rsplit_once(':').ok_or_else(help)?;
        let guest = guest.parse().map_err(|_| help())?;
        let descriptor = match descriptor.parse::<RawFd>() {
            Ok(number) if number >= FIRST => Descriptor::Number(number),
            Ok(_) => return Err(format!("{text}: 0, 1 and 2 are the standard streams")),
            Err(_) if descriptor.is_empty() => return Err(help()),
            Err(_) => Descriptor::Name(descriptor.to_owned()),
        };
        Ok(Self { descriptor, guest })
    }
}

/// A passed socket, and the guest port of its clients.
#[derive(Clone, Debug)]
pub struct PassedSocket {
    /// The socket.
    pub socket: Arc<OwnedFd>,
    /// Port of the guest.
    pub guest: NonZeroU16,
}

impl ListenFd {
    /// Takes the socket. A socket can be taken only once.
    ///
    /// # Errors
    ///
    /// A message: the descriptor was not passed, or the name does not identify exactly one socket.
    pub fn take(&self) -> Result<PassedSocket, String> {
        let number = match &self.descriptor {
            Descriptor::Number(number) => *number,
            Descriptor::Name(name) => number_of(name, &Passed::of_environment())?,
        };
        let socket = sandbox::take_inherited(number)
            .map_err(|_| format!("--listen-fd: descriptor {number} was not passed to this process"))?;
        Ok(PassedSocket { socket: Arc::new(socket), guest: self.guest })
    }
}

/// Environment variables with which a service manager describes the descriptors that it passes.
#[derive(Debug, Default)]
struct Passed {
    /// Number of descriptors.
    count: usize,
    /// Their names, separated by colons.
    names: String,
}

impl Passed {
    /// Reads the variables. They count as empty if they are for another process, such as the parent of this
    /// one.
    fn of_environment() -> Self {
        let number = |name: &str| env::var(name).ok()?.parse::<u32>().ok();
        if number("LISTEN_PID") != Some(process::id()) {
            return Self::default();
        }
        let count = number("LISTEN_FDS").and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
        Self { count, names: env::var("LISTEN_FDNAMES").unwrap_or_default() }
    }
}

fn number_of(name: &str, passed: &Passed) -> Result<RawFd, String> {
    let names = passed.names.split(':').take(passed.count);
    let mut found = (FIRST..).zip(names).filter(|(_, other)| *other == name);
    match (found.next(), found.next()) {
        (Some((number, _)), None) => Ok(number),
        (Some(_), Some(_)) => {
            Err(format!("--listen-fd: several sockets are called {name}: write the numbers"))
        }
        (None, _) => Err(format!(
            "--listen-fd: no socket called {name} was passed (LISTEN_PID, LISTEN_FDS, LISTEN_FDNAMES of systemd)"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::{ListenFd, Passed, number_of};

    #[test]
    fn number_or_name_is_parsed() {
        for text in ["3:80", "17:65535", "web:80", "a:b:80"] {
            assert!(text.parse::<ListenFd>().is_ok(), "{text}");
        }
        for (text, message) in [
            ("", "FD:GUEST"),
            ("3", "FD:GUEST"),
            (":80", "FD:GUEST"),
            ("3:0", "FD:GUEST"),
            ("3:65536", "FD:GUEST"),
            ("2:80", "standard streams"),
            ("-1:80", "standard streams"),
        ] {
            let error = text.parse::<ListenFd>().unwrap_err();
            assert!(error.contains(message), "{text}: {error}");
        }
    }

    #[test]
    fn name_is_that_of_one_descriptor() {
        let passed = Passed { count: 4, names: "web:dns:dns:admin:late".to_owned() };
        assert_eq!((number_of("web", &passed), number_of("admin", &passed)), (Ok(3), Ok(6)));
        for (name, message) in [("dns", "several"), ("late", "no socket called late"), ("", "no socket")] {
            assert!(number_of(name, &passed).unwrap_err().contains(message), "{name}");
        }
        assert!(number_of("web", &Passed::default()).is_err());
    }

    #[test]
    fn descriptor_that_was_not_passed_is_an_error() {
        // Descriptors that this process opens are close-on-exec, so they are not taken for passed
        // descriptors.
        let own = std::fs::File::open("/dev/null").unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&own);
        for number in [number, 1_000_000] {
            let error = format!("{number}:80").parse::<ListenFd>().unwrap().take().unwrap_err();
            assert!(error.contains(&format!("descriptor {number} was not passed")), "{error}");
        }
    }
}
