//! Results of queries.

use alloc::vec::Vec;
use core::net::IpAddr;

/// The reason why a query has no addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    /// The query is pending.
    #[error("not answered yet")]
    Pending,
    /// The name does not exist, or has no address of the family: `EAI_NONAME`.
    #[error("no such name")]
    NoName,
    /// No server answered: `EAI_AGAIN`.
    #[error("no name server answers")]
    Again,
    /// No usable name server is configured: `EAI_AGAIN`, as in Linux.
    #[error("no name server is known")]
    NoServer,
    /// Out of memory: `EAI_MEMORY`.
    #[error("no memory")]
    Memory,
    /// The query does not exist.
    #[error("no such query")]
    Unknown,
}

/// Addresses of a name, in the order in which programs try them.
pub type Addresses = Vec<IpAddr>;
