//! vCPUs: their threads, the handling of their exits, and their shutdown.
//!
//! [`manager`] starts, pauses and ends the vCPU threads. Each of them (`thread`) runs the guest until an
//! exit, which [`io_manager`] dispatches to a port or a device. Everything that ends a VM uses a
//! [`shutdown::VmHandle`].

pub mod io_manager;
pub mod manager;
pub mod shutdown;
pub mod stats;
pub(crate) mod thread;
mod thread_id;
