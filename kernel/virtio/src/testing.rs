//! Test doubles: DMA memory, a device model, and transports to it.
//!
//! Tests decide when the device acts: nothing runs in the background.

mod device_model;
mod dma;
mod free_memory;
mod mirrored;
mod mmio;
mod pci;
mod registers;
mod transport;

pub(crate) use device_model::{DeviceModel, SharedDevice, TakenChain};
pub(crate) use dma::{DeviceEvent, FakeDma, FakeMemory};
pub(crate) use free_memory::FakeRange;
pub(crate) use mirrored::{FakeMirrored, STALE_BYTE};
pub(crate) use mmio::mmio_registers;
pub(crate) use pci::{CONFIG_VECTOR, FakePci, MSIX_ENTRY, typical_capabilities, virtio_capability};
pub(crate) use registers::{ModelRegisters, random_registers};
pub(crate) use transport::FakeTransport;
