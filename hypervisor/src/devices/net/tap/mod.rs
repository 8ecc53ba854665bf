//! A network interface of the host's that is a file to us (Linux's Documentation/networking/tuntap.rst).
//!
//! Checksums and the cutting of long segments are left to whoever must do them anyway, and done by nobody where a segment stays
//! on this host: frames come and go with the headers that virtio has, too.

pub mod requests;

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use vm_memory::VolatileSlice;

use super::backend::{Backend, Lost, Received, Sent};
use super::header::{HEADER, Header, Offloads};
use super::vectored;
use crate::devices::report::Once;

/// What the host's kernel makes taps of.
const DEVICE: &str = "/dev/net/tun";

/// Most bytes of a packet: with the header of Ethernet, a frame has at most 65,535.
pub const MAX_MTU: u16 = 65_521;

/// Bytes of a frame's header, as the kernel wants to know it.
const HEADER_SIZE: libc::c_int = 12;

const _: () = assert!(HEADER == 12);

/// Why there is no tap.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The host has no taps.
    #[error("the host has no {DEVICE}: load the kernel's module `tun`, or pass the device to the container")]
    Missing,
    /// Taps are not for this user.
    #[error("{DEVICE} may not be opened by this user: {0}")]
    Open(io::Error),
    /// Another program has it.
    #[error("the tap {0} is in use by another program")]
    InUse(String),
    /// It is another user's, or does not exist and may not be made.
    #[error(
        "the tap {0} does not exist or is not this user's. Make it by\n  \
         sudo ip tuntap add {0} mode tap user $USER && sudo ip link set {0} up"
    )]
    NotPermitted(String),
    /// There is an interface of this name, but it is no tap.
    #[error("the network interface {0} is no tap")]
    NoTap(String),
    /// The interface's own limit counts.
    #[error("the tap {name} takes packets of {most} bytes at most: sudo ip link set {name} mtu {wanted}")]
    Mtu {
        /// Its name.
        name: String,
        /// What it takes.
        most: u32,
        /// What was asked for.
        wanted: u16,
    },
    /// No tap takes such packets.
    #[error("the tap {0} takes packets of at most {MAX_MTU} bytes, not {1}")]
    MaxMtu(String, u16),
    /// The host refuses something else.
    #[error("the tap {0} cannot be used: {1}")]
    Host(String, io::Error),
}

/// An open tap.
#[derive(Debug)]
pub struct Tap {
    file: File,
    /// The same, to wait for something else.
    output: File,
    mtu: u16,
    complaint: Once,
}

impl Tap {
    /// Opens a tap, or makes it: then it is gone with this machine. `mtu` is the most bytes of a packet; without it, what the
    /// interface has counts.
    ///
    /// # Errors
    ///
    /// See [`TapError`].
    pub fn open(name: &str, mtu: Option<u16>) -> Result<Self, TapError> {
        let failed = |error: Errno| failure(name, error);
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(failed)?;
        let is_new = netdevice::name_to_index(&socket, name).is_err();
        let file = connect(name)?;
        requests::set_header_size(&file, HEADER_SIZE).map_err(failed)?;
        requests::set_offloads(&file, Offloads::default()).map_err(failed)?;
        let bytes = padded(name);
        if is_new {
            mtu.map_or(Ok(()), |mtu| set_mtu(&socket, name, mtu))?;
            requests::switch_on(&socket, bytes).map_err(failed)?;
        } else if !requests::is_up(&socket, bytes).map_err(failed)? {
            log::warn!("the tap {name} is switched off: sudo ip link set {name} up");
        }
        let most = requests::mtu(&socket, bytes).map_err(failed)?;
        let mtu = mtu.unwrap_or_else(|| u16::try_from(most).unwrap_or(u16::MAX));
        if u32::from(mtu) > most {
            return Err(TapError::Mtu { name: name.to_owned(), most, wanted: mtu });
        }
        let output = file.try_clone().map_err(|error| TapError::Host(name.to_owned(), error))?;
        Ok(Self { file, output, mtu, complaint: Once::default() })
    }

    /// Most bytes of a packet.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// What became of a frame that the host did not take.
    fn refused(&mut self, error: io::Error) -> Result<Sent, Lost> {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(Sent::Later),
            _ if error.raw_os_error() == Some(libc::EBADFD) => Err(Lost(error)),
            _ => {
                let what = if error.raw_os_error() == Some(libc::EIO) {
                    "is the tap switched off?".to_owned()
                } else {
                    error.to_string()
                };
                self.complaint.warn(format_args!("network: the host refuses a frame of the guest's: {what}"));
                Ok(Sent::Taken)
            }
        }
    }
}

/// Opens the device and connects it with the tap of this name.
fn connect(name: &str) -> Result<File, TapError> {
    let open = || OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE);
    let open = || {
        open().map_err(|error| match error.kind() {
            ErrorKind::NotFound => TapError::Missing,
            // The device exists, but not what is behind it.
            _ if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => TapError::Missing,
            _ => TapError::Open(error),
        })
    };
    let file = open()?;
    match requests::set_interface(&file, padded(name), false) {
        Ok(()) => return Ok(file),
        // What it says of a tap with many queues, too.
        Err(Errno::INVAL) => {}
        Err(error) => return Err(failure(name, error)),
    }
    let file = open()?;
    requests::set_interface(&file, padded(name), true).map_err(|error| failure(name, error))?;
    Ok(file)
}

/// Here an argument that makes no sense is the size alone.
fn set_mtu(socket: impl AsFd, name: &str, mtu: u16) -> Result<(), TapError> {
    requests::set_mtu(socket, padded(name), mtu).map_err(|error| match error {
        Errno::INVAL => TapError::MaxMtu(name.to_owned(), mtu),
        error => failure(name, error),
    })
}

fn failure(name: &str, error: Errno) -> TapError {
    let name = name.to_owned();
    match error {
        Errno::BUSY => TapError::InUse(name),
        Errno::PERM | Errno::ACCESS => TapError::NotPermitted(name),
        Errno::INVAL => TapError::NoTap(name),
        error => TapError::Host(name, error.into()),
    }
}

/// A name as the kernel has it. It is no longer than that.
fn padded(name: &str) -> [u8; requests::NAME] {
    let mut bytes = [0; requests::NAME];
    bytes.iter_mut().zip(name.bytes().take(requests::NAME - 1)).for_each(|(to, from)| *to = from);
    bytes
}

impl Backend for Tap {
    fn has_offloads(&self) -> bool {
        true
    }

    fn set_offloads(&mut self, offloads: Offloads) -> io::Result<()> {
        Ok(requests::set_offloads(&self.file, offloads)?)
    }

    fn receive(&mut self, room: &[VolatileSlice<'_>]) -> Result<Option<Received>, Lost> {
        let mut header = [0; HEADER];
        let length = match vectored::read(self.file.as_fd(), &mut header, room) {
            Ok(length) => length.saturating_sub(HEADER),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Some(Received { header: header.into(), length }))
    }

    fn send(&mut self, header: Header, frame: &[VolatileSlice<'_>]) -> Result<Sent, Lost> {
        match vectored::write(self.file.as_fd(), &header.to_bytes(), frame) {
            // All of a frame, or nothing.
            Ok(_) => Ok(Sent::Taken),
            Err(error) => self.refused(error),
        }
    }

    fn flush(&mut self) -> Result<Sent, Lost> {
        Ok(Sent::Taken)
    }

    fn input(&self) -> RawFd {
        self.file.as_raw_fd()
    }

    fn output(&self) -> RawFd {
        self.output.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Tap, TapError, failure, padded};
    use rustix::io::Errno;

    #[test]
    fn names_are_padded_and_never_too_long() {
        assert_eq!(&padded("tap0"), b"tap0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(&padded("a name that is too long"), b"a name that is \0");
    }

    #[test]
    fn errors_say_what_to_do() {
        for (error, text) in [
            (Errno::BUSY, "in use"),
            (Errno::PERM, "sudo ip tuntap add tap7 mode tap user $USER"),
            (Errno::INVAL, "tap7 is no tap"),
            (Errno::NOMEM, "memory"),
        ] {
            let message = failure("tap7", error).to_string();
            assert!(message.contains(text), "{message}");
        }
    }
    #[test]
    fn packets_that_no_tap_takes_are_refused_as_such() {
        let name = format!("uhm{}", std::process::id());
        match Tap::open(&name, Some(u16::MAX)) {
            Err(TapError::Missing | TapError::Open(_) | TapError::NotPermitted(_)) => {
                println!("skipped: it takes root and /dev/net/tun");
            }
            Err(error) => assert!(error.to_string().contains("at most 65521 bytes, not 65535"), "{error}"),
            Ok(_) => panic!("a tap takes 65535 bytes"),
        }
    }
}
