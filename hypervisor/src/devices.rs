//! Device models.
//!
//! A guest accesses a device through the [`bus`], with reads and writes of guest physical addresses. All
//! devices except the [`clock`] are virtio devices on the MMIO transport ([`virtio`]). [`worker`] threads
//! process their queues.
//!
//! Each device is a module with a directory of the same name. There, `config.rs` has the device's queues,
//! features and configuration space. `request.rs`, or `rx.rs` and `tx.rs`, process its queues. The other
//! files are its host side.
//!
//! All data from a guest is hostile. So the device copies it once, and validates the copy. The host, not the
//! guest, bounds all loops and allocations. A device whose driver violates the specification stops until the
//! driver resets it. A guest cannot fill the host's log (`warn_once`).

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
