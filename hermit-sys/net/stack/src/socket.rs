//! Common parts of the sockets of all protocols: table, identifiers, addresses, ports, options, readiness,
//! buffer accounting.
//!
//! Each protocol has a [`table::SocketTable`] of its own, with its own state of a socket. Its calls get a
//! [`context::Context`].

pub(crate) mod address;
pub(crate) mod buffers;
pub(crate) mod context;
pub(crate) mod id;
pub(crate) mod kind;
pub(crate) mod options;
pub(crate) mod ports;
pub(crate) mod readiness;
pub(crate) mod table;

pub(crate) use crate::collections::slab;
