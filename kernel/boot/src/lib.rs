//! Loading of an image: placement, relocation, page tables, boot information.
//!
//! The loader, inside the machine, and the hypervisor, outside of it, start an image in the same way: they
//! [load] it at a random address, relocate it, build page tables without pages that are both writable and
//! executable, and [write boot information](LoadedImage::hand_over). They access physical memory through
//! [`PhysicalMemory`].
//!
//! ```
//! use hermit_boot::{FreeMemory, PhysicalMemory, Randomness, load};
//! use hermit_interface::address::AddressRange;
//! use hermit_interface::image::{check, sample::Sample};
//!
//! struct Memory(Vec<u8>);
//!
//! impl PhysicalMemory for Memory {
//!     fn write(&mut self, address: u64, bytes: &[u8]) {
//!         self.0[address as usize..][..bytes.len()].copy_from_slice(bytes);
//!     }
//!     fn zero(&mut self, address: u64, size: u64) {
//!         self.0[address as usize..][..size as usize].fill(0);
//!     }
//!     fn read_word(&self, address: u64) -> u64 {
//!         u64::from_le_bytes(self.0[address as usize..][..8].try_into().unwrap())
//!     }
//! }
//!
//! let mut memory = Memory(vec![0; 1 << 20]);
//! let mut free = FreeMemory::new();
//! free.free(AddressRange { start: 0x1000, end: 1 << 20 }).unwrap();
//! let file = Sample::default().build();
//! let image = check(&file).unwrap();
//! let random = Randomness { image: 1, direct_map: 2, free_addresses: 3 };
//! let loaded = load(&mut memory, &mut free, &image, random, 0).unwrap();
//! assert_eq!(loaded.entry, loaded.info.image.start + image.entry);
//! let entry = loaded.entry;
//! let boot_info = loaded.hand_over(&mut memory, &mut free, &[], &[], b"-- argument").unwrap();
//! assert!(boot_info > entry);
//! ```
#![no_std]
#![forbid(unsafe_code)]

mod error;
mod layout;
mod load;
mod page_table;

use hermit_interface::image::Segment;

pub use error::LoadError;
pub use layout::Randomness;
pub use load::{LoadedImage, load};

/// Maximum number of free memory regions; a PC's firmware reports about ten.
pub const MAX_REGIONS: usize = 64;

/// Free physical memory.
pub type FreeMemory = hermit_memory::ranges::FreeRanges<MAX_REGIONS>;

/// Access to the machine's physical memory. Only memory that was free is accessed.
pub trait PhysicalMemory {
    /// Writes `bytes` at `address`.
    fn write(&mut self, address: u64, bytes: &[u8]);

    /// Writes the contents of a segment of the image at `address`.
    fn write_contents(&mut self, address: u64, segment: &Segment<'_>) {
        self.write(address, segment.data);
    }

    /// Fills `size` bytes with zero.
    fn zero(&mut self, address: u64, size: u64);

    /// Reads the word at an address that is a multiple of eight.
    fn read_word(&self, address: u64) -> u64;

    /// Writes the word at an address of any alignment.
    fn write_word(&mut self, address: u64, word: u64) {
        self.write(address, &word.to_le_bytes());
    }
}
