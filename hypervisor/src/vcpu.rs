//! vCPUs: their threads, the handling of their exits, and their shutdown.
//!
//! [`manager`] starts, pauses and ends the threads; each of them (`thread`) runs the guest until an exit,
//! which [`io_manager`] takes to a port or device. Everything that ends a VM does so by a
//! [`shutdown::VmHandle`].

pub mod io_manager;
pub mod manager;
pub mod shutdown;
pub mod stats;
pub(crate) mod thread;
mod thread_id;
