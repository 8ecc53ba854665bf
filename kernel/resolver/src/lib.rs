//! Resolver: the addresses of a host name, as `getaddrinfo` returns them.
//!
//! The kernel's `getaddrinfo` asks four sources in this order. It returns the answer of the first source that
//! knows the name:
//!
//! 1. the name itself, if it is a numeric address ([`numeric`]);
//! 2. the text of `/etc/hosts` ([`hosts`]);
//! 3. names that every machine knows, such as `localhost` ([`local`]), and those of the network stack;
//! 4. name servers: a [`Resolution`] completes the name by the search list ([`search`]) and asks the servers
//!    for each complete name ([`exchange`]), with messages of its own ([`message`]).
//!
//! Where the servers and the search list come from is said in [`Configuration`]; [`order`] sorts the result.
//!
//! A [`Resolution`] never blocks and uses neither sockets nor clocks itself. It calls a [`Transport`], and
//! must be polled again when a socket is ready or at the time [`Resolution::deadline`]. Answers and files are
//! untrusted. Constants such as [`message::MAX_ALIASES`] limit the work that they can cause, and each
//! allocation can fail.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod configuration;
pub mod exchange;
pub mod hosts;
pub mod local;
pub mod message;
mod name;
pub mod numeric;
pub mod order;
mod pending;
pub mod search;
mod stream;
#[cfg(test)]
mod tests;

use alloc::collections::TryReserveError;
use core::net::IpAddr;

pub use configuration::Configuration;
pub use exchange::{StreamId, Transport};
pub use name::Name;
pub use search::Resolution;

/// Reason why a name has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// The name does not exist: `EAI_NONAME`.
    #[error("no such name")]
    NoName,
    /// The name exists, but has no address of the family: `EAI_NODATA`.
    #[error("the name has no address")]
    NoData,
    /// No server has answered, or none could: `EAI_AGAIN`.
    #[error("no name server answers")]
    Again,
    /// Out of memory: `EAI_MEMORY`.
    #[error("no memory")]
    Memory,
}

impl From<TryReserveError> for LookupError {
    fn from(_error: TryReserveError) -> Self {
        Self::Memory
    }
}

/// An address, and the index of the interface on which it is valid, or 0 if it is valid on any interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address.
    pub ip: IpAddr,
    /// Scope identifier of an IPv6 address (RFC 4007 §11).
    pub scope: u32,
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        Self { ip, scope: 0 }
    }
}

/// Families of the wanted addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// IPv4 addresses.
    V4,
    /// IPv6 addresses.
    V6,
    /// Addresses of both families.
    Both,
}

impl Families {
    /// Returns true if an address is of one of the families.
    #[must_use]
    pub const fn contains(self, address: &IpAddr) -> bool {
        match self {
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
            Self::Both => true,
        }
    }
}

/// Maximum length of a name in text, in bytes: 255 on the wire (RFC 1035 §2.3.4), less the first length and
/// the root.
pub const MAX_TEXT_LEN: usize = 253;

/// Maximum length in bytes of the part of `/etc/hosts` and `/etc/resolv.conf` that is read.
pub const MAX_FILE_LEN: usize = 1 << 20;
