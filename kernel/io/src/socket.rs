//! The common interface of sockets of all address families.
//!
//! A family implements [`Socket`] and [`Object`] for its sockets. Socket addresses and values of options are
//! passed as the bytes of the ABI's structures, such as `sockaddr`. Only the family interprets them.
//! [`CommonSettings`] has the settings that sockets of all families share.

mod settings;
#[cfg(test)]
#[cfg(not(loom))]
mod tests;

use alloc::sync::Arc;

use hermit_interface::Errno;

use self::settings::CommonOption;
pub use self::settings::{CommonSettings, Direction};
use crate::{Argument, Object, ReadBuffer, ValueResult};

/// Level and number of a socket option, as `setsockopt` takes them.
pub type OptionId = (i32, i32);

/// The `MSG_` flags of a call that sends or receives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFlags {
    /// `MSG_PEEK`: received bytes stay in the receive queue.
    pub peek: bool,
    /// `MSG_DONTWAIT`: the call does not block, as if the socket were non-blocking.
    pub dont_wait: bool,
    /// `MSG_WAITALL`: receiving from a stream continues until the buffer is full. Sockets without streams
    /// ignore this flag, as on Linux.
    pub wait_all: bool,
}

/// A socket. [`Object::as_socket`] returns the socket of an object.
///
/// `accept`, `connect`, `send` and `receive` block like the system calls of the same names, until
/// [`CommonSettings::deadline`]. They do not block if the socket is
/// [non-blocking](CommonSettings::is_nonblocking), or if the call is ([`MessageFlags::dont_wait`]). The
/// family decides how to wait: threads that wait for IP sockets poll the network device meanwhile.
///
/// A socket address is already a copy from the program's memory. It may have any size and content.
pub trait Socket: Object {
    /// Settings that sockets of all families have.
    fn settings(&self) -> &CommonSettings;

    /// Binds the socket to a local address.
    ///
    /// # Errors
    ///
    /// `EINVAL` or `EAFNOSUPPORT` for an invalid address, or an error of the family.
    fn bind(&self, address: &[u8]) -> Result<(), Errno>;

    /// Makes the socket a listener with a queue of `backlog` connections.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if sockets of this type have no connections, or an error of the family.
    fn listen(&self, backlog: i32) -> Result<(), Errno> {
        let _ = backlog;
        Err(Errno::EOPNOTSUPP)
    }

    /// Accepts a connection. Returns its socket, and writes the peer's address to `from`. If writing the
    /// address fails, the connection is closed, as on Linux.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if sockets of this type have no connections, the error of `from`, or an error of the
    /// family.
    fn accept(&self, from: Option<&mut dyn ValueResult>) -> Result<Arc<dyn Socket>, Errno> {
        let _ = from;
        Err(Errno::EOPNOTSUPP)
    }

    /// Connects the socket, or sets the peer of a socket without connections.
    ///
    /// # Errors
    ///
    /// As [`Self::bind`].
    fn connect(&self, address: &[u8]) -> Result<(), Errno>;

    /// Sends bytes to the peer. Returns their number.
    ///
    /// # Errors
    ///
    /// An error of the family.
    fn send(&self, bytes: &[u8], flags: MessageFlags) -> Result<usize, Errno>;

    /// Sends bytes to an address. Returns their number.
    ///
    /// # Errors
    ///
    /// As [`Self::bind`], then `EFAULT` for invalid bytes, or an error of the family.
    fn send_to(&self, bytes: Argument<'_>, address: &[u8], flags: MessageFlags) -> Result<usize, Errno>;

    /// Receives bytes. Writes the sender's address to `from`. On a connection, it writes an empty address.
    ///
    /// # Errors
    ///
    /// The error of `from`, or an error of the family.
    fn receive(
        &self,
        buffer: &mut ReadBuffer<'_>,
        flags: MessageFlags,
        from: Option<&mut dyn ValueResult>,
    ) -> Result<(), Errno>;

    /// Shuts down one or both directions: `SHUT_RD`, `SHUT_WR`, `SHUT_RDWR`.
    ///
    /// # Errors
    ///
    /// An error of the family.
    fn shutdown(&self, how: i32) -> Result<(), Errno>;

    /// Writes the socket's local address to `address`.
    ///
    /// # Errors
    ///
    /// The error of `address`, or an error of the family.
    fn local(&self, address: &mut dyn ValueResult) -> Result<(), Errno>;

    /// Writes the address of the socket's peer to `address`.
    ///
    /// # Errors
    ///
    /// As [`Self::local`].
    fn remote(&self, address: &mut dyn ValueResult) -> Result<(), Errno>;

    /// Sets an option that not all families have. `dyn Socket` has `set_option` for all options.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT` for an unknown option, `EINVAL` for an invalid value, `EFAULT`, or an error of the
    /// family.
    fn set_family_option(&self, option: OptionId, value: &Argument<'_>) -> Result<(), Errno> {
        let _ = (option, value);
        Err(Errno::ENOPROTOOPT)
    }

    /// Writes the value of an option that not all families have to `value`.
    ///
    /// # Errors
    ///
    /// `ENOPROTOOPT` for an unknown option, the error of `value`, or an error of the family.
    fn family_option(&self, option: OptionId, value: &mut dyn ValueResult) -> Result<(), Errno> {
        let _ = (option, value);
        Err(Errno::ENOPROTOOPT)
    }
}

impl dyn Socket + '_ {
    /// Sets an option.
    ///
    /// # Errors
    ///
    /// Those of [`Socket::set_family_option`]; `EDOM` for an invalid time.
    pub fn set_option(&self, option: OptionId, value: &Argument<'_>) -> Result<(), Errno> {
        match CommonOption::find(option) {
            Some(common) => self.settings().set(common, value),
            None => self.set_family_option(option, value),
        }
    }

    /// Writes the value of an option to `value`.
    ///
    /// # Errors
    ///
    /// Those of [`Socket::family_option`].
    pub fn option(&self, option: OptionId, value: &mut dyn ValueResult) -> Result<(), Errno> {
        match CommonOption::find(option) {
            Some(common) => self.settings().write(common, value),
            None => self.family_option(option, value),
        }
    }
}
