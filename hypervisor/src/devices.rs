//! Device models.
//!
//! A guest accesses a device through the [`bus`], by reads and writes of guest physical addresses. All
//! devices but the [`clock`] are virtio devices on the MMIO transport ([`virtio`]); a [`worker`] thread
//! processes their queues.
//!
//! Each device is a module beside a directory with the same files: `config.rs` has its queues, features and
//! configuration space, `request.rs` or `rx.rs` and `tx.rs` the processing of its queues; the others are its
//! side towards the host.
//!
//! All data from a guest is hostile: it is read once, by copy, and validated; the host sets the bounds of
//! loops and allocations. A device whose driver violates the specification stops until the driver resets it.
//! A guest cannot fill the host's log (`warn_once`).

pub mod block;
pub mod bus;
pub mod clock;
pub mod console;
pub mod entropy;
pub mod fs;
#[doc(hidden)]
pub mod fuzzing;
pub mod manager;
pub mod net;
pub mod power_button;
pub mod rate_limiter;
mod standard_streams;
pub(crate) mod tsc;
pub mod virtio;
pub(crate) mod warn_once;
pub mod worker;
