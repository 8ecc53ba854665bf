//! What a guest sees besides processors and memory.
//!
//! A guest reaches a device through the [`bus`], by reading and writing physical addresses. All devices are
//! virtio devices behind memory-mapped registers ([`virtio`]); a [`worker`] thread serves their queues.
//!
//! Whatever a guest hands over is hostile: it is read once, by copy, and checked; loops and allocations have
//! bounds that the host chose. A driver that breaks the rules loses its device until it resets it, and cannot
//! fill the host's log.

pub mod block;
pub mod bus;
pub mod console;
pub mod entropy;
#[doc(hidden)]
pub mod fuzzing;
pub mod net;
pub mod virtio;
mod warn_once;
pub mod worker;
