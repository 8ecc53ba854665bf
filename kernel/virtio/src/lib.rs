//! Virtio drivers of the guest (virtio 1.2): pure state machines that know neither hardware nor threads.
//!
//! | module | what | who calls it |
//! | --- | --- | --- |
//! | [`registers`], [`memory`] | seams: device registers, memory for devices, [buffers](memory::Buffer) with one owner | the hal implements the traits |
//! | [`memory::arena`] | seam: memory that is used in place, [spans](memory::arena::Span) with one owner | as above |
//! | [`transport`] | how a device is reached: [`transport::mmio`], [`transport::pci`] with the seams to configuration space | the kernel makes one for each device that it finds |
//! | [`device`] | what all devices have in common: start, features, failure, end | drivers |
//! | [`queue`] | split virtqueues | drivers |
//! | [`console`], [`entropy`], [`block`], [`net`] | drivers | the kernel, under a lock of its own |
//! | [`bytes`] | bytes of a device that has only whole sectors | the kernel's block object |
//!
//! A driver never waits. Its calls say when there is nothing to be done yet, and an interrupt comes when that changes:
//! whoever handles it calls the driver's `interrupt` and wakes those who wait. The order matters: call, find
//! nothing, wait. What was found is what the last call before waiting said; an interrupt that comes after it wakes.
//!
//! # Trust
//!
//! Devices are not trusted in what they write: any answer that cannot be breaks the device ([`device::DeviceError`])
//! for good, and neither panics nor loops follow from one. But there is no IOMMU: where a device writes is up to it.
//!
//! # What there is not
//!
//! Legacy interfaces, packed virtqueues, indirect descriptors, several console ports, several block queues,
//! several pairs of network queues and their control queue.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod block;
pub mod bytes;
pub mod console;
pub mod device;
pub mod entropy;
pub mod memory;
pub mod net;
pub mod queue;
pub mod registers;
#[cfg(test)]
mod testing;
pub mod transport;

pub use virtio_spec::Id;
