//! Virtio 1.2 drivers of the guest, as state machines without hardware access, threads or `unsafe` code.
//!
//! The kernel finds a device, makes a [`transport`] for it, and owns the driver behind a lock. The hal
//! implements the traits for register access and DMA memory; tests implement them over a device model in
//! ordinary memory.
//!
//! | module | contents | used by |
//! | --- | --- | --- |
//! | [`registers`] | register access | implemented by the hal |
//! | [`dma`] | DMA memory, copied in and out: [buffers](dma::DmaBuffer) with a single owner | implemented by the hal |
//! | [`dma::mirrored`] | DMA memory, accessed in place: [spans](dma::mirrored::Span) with a single owner | implemented by the hal |
//! | [`transport`] | [virtio-mmio](transport::mmio) and [virtio-pci](transport::pci) | the kernel makes one per device |
//! | [`device`] | initialization, feature negotiation, failure and reset | drivers |
//! | [`virtqueue`] | split virtqueues | drivers |
//! | [`balloon`], [`block`], [`console`], [`entropy`], [`fs`], [`net`] | drivers | the kernel, each behind a lock |
//! | [`block::byte_access`] | reads and writes at any byte of a device with whole sectors | the kernel's disks |
//!
//! A driver never waits. Its calls return the available results, and an interrupt follows when there are
//! more. The interrupt handler calls the driver's `interrupt` and wakes the waiting threads. A thread calls
//! the driver before it blocks, and blocks only if no result was ready. Each later change raises an
//! interrupt, so no wake-up is lost.
//!
//! # Example
//!
//! A sector device is read at any byte:
//!
//! ```
//! use hermit_virtio::block::byte_access::{ByteAccess, SectorDevice};
//!
//! #[derive(Debug)]
//! struct RamDisk([u8; 1024]);
//!
//! impl SectorDevice for RamDisk {
//!     type Error = std::io::Error;
//!
//!     fn sector_size(&self) -> usize {
//!         512
//!     }
//!
//!     fn sector_count(&self) -> u64 {
//!         2
//!     }
//!
//!     fn max_transfer(&self) -> usize {
//!         1024
//!     }
//!
//!     fn read(&mut self, sector: u64, buffer: &mut [u8]) -> Result<(), Self::Error> {
//!         let start = sector as usize * 512;
//!         buffer.copy_from_slice(&self.0[start..start + buffer.len()]);
//!         Ok(())
//!     }
//!
//!     fn write(&mut self, sector: u64, bytes: &[u8]) -> Result<(), Self::Error> {
//!         let start = sector as usize * 512;
//!         self.0[start..start + bytes.len()].copy_from_slice(bytes);
//!         Ok(())
//!     }
//! }
//!
//! let mut disk = ByteAccess::new(RamDisk([0; 1024])).expect("valid sizes");
//! // The bytes lie in both sectors: each is read, changed and written.
//! assert_eq!(disk.write_at(510, b"abcd").ok(), Some(4));
//! let mut bytes = [0; 2];
//! assert_eq!(disk.read_at(511, &mut bytes).ok(), Some(2));
//! assert_eq!(&bytes, b"bc");
//! ```
//!
//! # Trust
//!
//! Devices are untrusted: an invalid answer breaks the device permanently ([`device::DeviceError`]), and
//! never causes a panic or an endless loop. But there is no IOMMU: a malicious device can write to any
//! memory.
//!
//! Memory safety rests on the addresses that drivers pass to devices. They are those of memory whose traits
//! are unsafe to implement ([`dma::DmaMemory`], [`dma::mirrored::MirroredMemory`], [`balloon::FreeMemory`]),
//! only this crate passes them on, and the memory is not freed before the device has completed a reset
//! ([`dma::DmaPermit`]).
//!
//! # Limits
//!
//! Not supported are legacy interfaces, packed virtqueues, indirect descriptors, multiport consoles, block
//! devices and network devices with several queues, and the network control queue.
#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod balloon;
pub mod block;
pub mod console;
pub mod device;
pub mod dma;
pub mod entropy;
pub mod fs;
pub mod net;
pub mod registers;
#[cfg(test)]
mod testing;
pub mod transport;
pub mod virtqueue;

pub use virtio_spec::Id;
