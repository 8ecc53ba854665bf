//! TAP interfaces of the host (Linux's Documentation/networking/tuntap.rst).
//!
//! A TAP interface is an Ethernet interface of the host with a file descriptor in place of a cable. A read
//! returns a frame that the host has sent to the interface, and a write makes the interface receive a frame.
//! The operator bridges or routes the interface, and the guest is one more host on that link.
//!
//! Frames carry the vnet header of virtio, so that checksum and segmentation offload pass through: a frame
//! between the guest and its host is neither checksummed nor segmented. With an egress policy, `guarded`
//! checks each frame of the guest before it is written.

mod guarded;
pub mod ioctl;

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;

use hermit_options::network::MAX_TAP_MTU;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netdevice, socket_with};
use vm_memory::VolatileSlice;

use super::iovec;
use super::{Backend, Disconnected, ReceivedFrame, TxStatus};
use crate::devices::net::egress::EgressFilter;
use crate::devices::net::header::{Offloads, VNET_HEADER_SIZE, VnetHeader};
use crate::devices::warn_once::WarnOnce;

/// The device file with which programs attach to TUN and TAP interfaces.
const DEVICE: &str = "/dev/net/tun";

/// [`VNET_HEADER_SIZE`] as the argument of an ioctl(2).
const VNET_HEADER_SIZE_ARGUMENT: libc::c_int = 12;

const _: () = assert!(VNET_HEADER_SIZE == 12);

/// Reason why a TAP interface cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TapError {
    /// The host has no TUN/TAP driver.
    #[error("the host has no {DEVICE}: load the kernel's module `tun`, or pass the device to the container")]
    Missing,
    /// The user has no permission to open the device file.
    #[error("{DEVICE} may not be opened by this user: {0}")]
    Open(io::Error),
    /// Another program is attached to the interface.
    #[error("the tap {0} is in use by another program")]
    InUse(String),
    /// The interface belongs to another user, or does not exist and the user has no permission to create it.
    #[error(
        "the tap {0} does not exist or is not this user's. Make it by\n  \
         sudo ip tuntap add {0} mode tap user $USER && sudo ip link set {0} up"
    )]
    NotPermitted(String),
    /// The interface is no TAP interface.
    #[error("the network interface {0} is no tap")]
    NoTap(String),
    /// The interface's MTU is smaller than the requested one.
    #[error("the tap {name} takes packets of {max} bytes at most: sudo ip link set {name} mtu {requested}")]
    Mtu {
        /// Name of the interface.
        name: String,
        /// MTU of the interface in bytes.
        max: u32,
        /// Requested MTU in bytes.
        requested: u16,
    },
    /// The requested MTU exceeds [`MAX_TAP_MTU`].
    #[error("the tap {0} takes packets of at most {MAX_TAP_MTU} bytes, not {1}")]
    MaxMtu(String, u16),
    /// Any other error of the host.
    #[error("the tap {0} cannot be used: {1}")]
    Host(String, io::Error),
}

/// An attached TAP interface.
#[derive(Debug)]
pub struct Tap {
    file: File,
    /// Duplicate of `file`. With two descriptors, epoll(7) watches for input and for output separately.
    output: File,
    mtu: u16,
    /// Egress policy, if the operator asks for one.
    egress: Option<EgressFilter>,
    refused_frame: WarnOnce,
}

impl Tap {
    /// Attaches to a TAP interface. Creates the interface if it is missing; Linux removes a created interface
    /// when this process exits. `mtu` is the requested MTU in bytes; `None` keeps the MTU of the interface.
    ///
    /// # Errors
    ///
    /// See [`TapError`].
    pub fn open(name: &str, mtu: Option<u16>) -> Result<Self, TapError> {
        let to_error = |errno: Errno| tap_error(name, errno);
        let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
            .map_err(to_error)?;
        let is_new = netdevice::name_to_index(&socket, name).is_err();
        let file = attach(name)?;
        // A persistent tap may still have the header size and the offloads of the previous program.
        ioctl::set_vnet_header_size(&file, VNET_HEADER_SIZE_ARGUMENT).map_err(to_error)?;
        ioctl::set_offloads(&file, Offloads::default()).map_err(to_error)?;
        let ifname = padded(name);
        if is_new {
            mtu.map_or(Ok(()), |mtu| set_mtu(&socket, name, mtu))?;
            ioctl::set_up(&socket, ifname).map_err(to_error)?;
        } else if !ioctl::is_up(&socket, ifname).map_err(to_error)? {
            log::warn!("the tap {name} is switched off: sudo ip link set {name} up");
        }
        let max = ioctl::mtu(&socket, ifname).map_err(to_error)?;
        let mtu = mtu.unwrap_or_else(|| u16::try_from(max).unwrap_or(u16::MAX));
        if u32::from(mtu) > max {
            return Err(TapError::Mtu { name: name.to_owned(), max, requested: mtu });
        }
        let output = file.try_clone().map_err(|error| TapError::Host(name.to_owned(), error))?;
        Ok(Self { file, output, mtu, egress: None, refused_frame: WarnOnce::default() })
    }

    /// Returns the interface with this egress filter for the guest's frames; `None` lets all frames pass.
    #[must_use]
    pub fn with_egress(self, egress: Option<EgressFilter>) -> Self {
        Self { egress, ..self }
    }

    /// MTU in bytes.
    #[must_use]
    pub fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Converts an error of a write into the status of the frame, or into [`Disconnected`].
    fn handle_write_error(&mut self, error: io::Error) -> Result<TxStatus, Disconnected> {
        match error.kind() {
            ErrorKind::WouldBlock | ErrorKind::Interrupted => Ok(TxStatus::WouldBlock),
            // The interface was deleted.
            _ if error.raw_os_error() == Some(libc::EBADFD) => Err(Disconnected(error)),
            _ => {
                let reason = if error.raw_os_error() == Some(libc::EIO) {
                    "is the tap switched off?".to_owned()
                } else {
                    error.to_string()
                };
                self.refused_frame
                    .warn(format_args!("network: the host refuses a frame of the guest's: {reason}"));
                Ok(TxStatus::Accepted)
            }
        }
    }
}

/// Opens the device file and attaches it to the TAP interface of this name.
fn attach(name: &str) -> Result<File, TapError> {
    let open = || OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE);
    let open = || {
        open().map_err(|error| match error.kind() {
            ErrorKind::NotFound => TapError::Missing,
            // The device file exists, but its driver does not.
            _ if matches!(error.raw_os_error(), Some(libc::ENODEV | libc::ENXIO)) => TapError::Missing,
            _ => TapError::Open(error),
        })
    };
    let file = open()?;
    match ioctl::set_interface(&file, padded(name), false) {
        Ok(()) => return Ok(file),
        // `EINVAL`: the interface is not a TAP interface, or it has several queues. The second attempt
        // requests several queues, and fails if it is not a TAP interface.
        Err(Errno::INVAL) => {}
        Err(errno) => return Err(tap_error(name, errno)),
    }
    let file = open()?;
    ioctl::set_interface(&file, padded(name), true).map_err(|errno| tap_error(name, errno))?;
    Ok(file)
}

/// Sets the MTU of an interface. Linux returns `EINVAL` for a larger MTU than the interface permits.
fn set_mtu(socket: impl AsFd, name: &str, mtu: u16) -> Result<(), TapError> {
    ioctl::set_mtu(socket, padded(name), mtu).map_err(|errno| match errno {
        Errno::INVAL => TapError::MaxMtu(name.to_owned(), mtu),
        errno => tap_error(name, errno),
    })
}

fn tap_error(name: &str, errno: Errno) -> TapError {
    let name = name.to_owned();
    match errno {
        Errno::BUSY => TapError::InUse(name),
        Errno::PERM | Errno::ACCESS => TapError::NotPermitted(name),
        Errno::INVAL => TapError::NoTap(name),
        errno => TapError::Host(name, errno.into()),
    }
}

/// Returns the name as in a `struct ifreq`: truncated if necessary, padded with zeros.
fn padded(name: &str) -> [u8; ioctl::IFNAMSIZ] {
    let mut bytes = [0; ioctl::IFNAMSIZ];
    bytes.iter_mut().zip(name.bytes().take(ioctl::IFNAMSIZ - 1)).for_each(|(to, from)| *to = from);
    bytes
}

impl Backend for Tap {
    fn has_offloads(&self) -> bool {
        true
    }

    fn set_offloads(&mut self, offloads: Offloads) -> io::Result<()> {
        Ok(ioctl::set_offloads(&self.file, offloads)?)
    }

    fn receive(&mut self, buffers: &[VolatileSlice<'_>]) -> Result<Option<ReceivedFrame>, Disconnected> {
        let received = match &mut self.egress {
            Some(egress) => guarded::receive(&self.file, buffers, egress),
            None => {
                let mut header = [0; VNET_HEADER_SIZE];
                iovec::read(self.file.as_fd(), &mut header, buffers)
                    .map(|length| (header.into(), length.saturating_sub(VNET_HEADER_SIZE)))
            }
        };
        match received {
            Ok((header, length)) => Ok(Some(ReceivedFrame { header, length })),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn send(&mut self, header: VnetHeader, frame: &[VolatileSlice<'_>]) -> Result<TxStatus, Disconnected> {
        let sent = match &mut self.egress {
            Some(egress) => guarded::send(&self.file, header, frame, egress).map(drop),
            None => iovec::write(self.file.as_fd(), &header.to_bytes(), frame).map(drop),
        };
        match sent {
            // A TAP device accepts whole frames only.
            Ok(()) => Ok(TxStatus::Accepted),
            Err(error) => self.handle_write_error(error),
        }
    }

    fn flush(&mut self) -> Result<TxStatus, Disconnected> {
        Ok(TxStatus::Accepted)
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
    use super::{Tap, TapError, padded, tap_error};
    use rustix::io::Errno;

    #[test]
    fn interface_names_are_padded_and_truncated() {
        assert_eq!(&padded("tap0"), b"tap0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(&padded("a name that is too long"), b"a name that is \0");
    }

    #[test]
    fn tap_errors_name_a_remedy() {
        for (errno, text) in [
            (Errno::BUSY, "in use"),
            (Errno::PERM, "sudo ip tuntap add tap7 mode tap user $USER"),
            (Errno::INVAL, "tap7 is no tap"),
            (Errno::NOMEM, "memory"),
        ] {
            let message = tap_error("tap7", errno).to_string();
            assert!(message.contains(text), "{message}");
        }
    }

    #[test]
    fn mtu_above_the_maximum_is_rejected() {
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
