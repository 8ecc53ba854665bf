//! Names to addresses.

use alloc::vec::Vec;
use core::net::IpAddr;

/// A question for the addresses of a name. It stays valid until its answer was taken, or it was cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QueryId(pub(crate) u64);

impl QueryId {
    /// As a number, to cross a C interface.
    #[must_use]
    pub const fn into_raw(self) -> u64 {
        self.0
    }

    /// Of a number.
    #[must_use]
    pub const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Families {
    /// Of IPv4.
    V4,
    /// Of IPv6.
    V6,
    /// Of both.
    Both,
}

/// Why a name has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// There is no answer yet.
    #[error("not answered yet")]
    Pending,
    /// There is no such name, or it has no address of the family: `EAI_NONAME`.
    #[error("no such name")]
    NoName,
    /// No server answered: `EAI_AGAIN`.
    #[error("no name server answers")]
    Again,
    /// There is no name server that could be asked: `EAI_FAIL`... it cannot be told from one that is silent.
    #[error("no name server is known")]
    NoServer,
    /// There is no memory: `EAI_MEMORY`.
    #[error("no memory")]
    Memory,
    /// There is no such query.
    #[error("no such query")]
    Unknown,
}

/// What a name was resolved to, in the order in which addresses are to be tried.
pub type Addresses = Vec<IpAddr>;
