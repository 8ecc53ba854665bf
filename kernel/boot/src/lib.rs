//! How an image gets into memory.
//!
//! The loader, which runs inside the machine, and the hypervisor, which runs outside, do the same to start an
//! image: [place](load) it at a random address, relocate it, build page tables in which nothing is both writable
//! and executable, and [tell the kernel](Loaded::hand_over). Physical memory is whatever implements
//! [`PhysicalMemory`].
#![no_std]
#![forbid(unsafe_code)]

mod layout;
mod load;
mod page_table;

pub use layout::Randomness;
pub use load::{LoadError, Loaded, load};

/// How many pieces of free memory are kept track of; a PC's firmware reports about ten.
pub const MAX_REGIONS: usize = 64;

/// The free physical memory.
pub type FreeMemory = hermit_memory::ranges::FreeRanges<MAX_REGIONS>;

/// The machine's physical memory. Only addresses that were free are accessed.
pub trait PhysicalMemory {
    /// Copies `bytes` to `address`.
    fn write(&mut self, address: u64, bytes: &[u8]);

    /// Fills `size` bytes with zero.
    fn zero(&mut self, address: u64, size: u64);

    /// Reads the word at an address that is a multiple of eight.
    fn read_word(&self, address: u64) -> u64;

    /// Writes the word at an address that is a multiple of eight, or not.
    fn write_word(&mut self, address: u64, word: u64) {
        self.write(address, &word.to_le_bytes());
    }
}
