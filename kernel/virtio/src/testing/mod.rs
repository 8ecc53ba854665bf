//! What stands for the outside in tests: memory, a device that works off its queues, ways to reach it.
//!
//! Tests say when the device does what: nothing happens in the background.

mod face;
mod memory;
mod mirror;
mod model;
mod pci;
mod transport;

pub(crate) use face::{mmio, rubbish};
pub(crate) use memory::{Event, FakeDma, FakeMemory};
pub(crate) use mirror::{FakeMirror, SECRET};
pub(crate) use model::{Model, Received, Shared};
pub(crate) use pci::{CONFIG_VECTOR, FakePci, MESSAGE_ENTRY, MODERN, place};
pub(crate) use transport::{FakeTransport, ModelRegisters};
