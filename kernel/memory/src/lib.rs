//! Arithmetic of memory allocation: which memory and addresses are free, and how large a block is.
//!
//! | module | contents |
//! | --- | --- |
//! | [`ranges`] | a table of free ranges with a fixed capacity, for loader, hypervisor and kernel |
//! | [`frames`] | the frame allocator: free physical memory as a tree that lies in the free memory itself |
//! | [`freed_units`] | freed memory that may still be resident on the host |
//! | [`lazy_ranges`] | addresses that get memory when they are touched |
//! | [`bump`] | a region of blocks that frees only the last one |
//! | [`permanent`] | blocks that are never freed, apart from other blocks |
//! | [`spans`] | pieces of memory that the heap divides into blocks of one size |
//! | [`size_classes`] | the block sizes for which the heap has free lists |
//! | [`stack_slots`] | the addresses of thread stacks and of their guard pages |
//!
//! ```
//! use hermit_interface::address::{AddressRange, PAGE_SIZE};
//! use hermit_memory::ranges::FreeRanges;
//! use hermit_memory::stack_slots::{SlotTable, size_for, stack_size};
//!
//! let mut free = FreeRanges::<16>::new();
//! free.free(AddressRange { start: 0x1000, end: 0x9000 })?;
//! assert_eq!(free.allocate(2 * PAGE_SIZE, 4 * PAGE_SIZE), Some(0x4000));
//! assert_eq!(free.total(), 6 * PAGE_SIZE);
//!
//! let size = size_for(100_000).unwrap();
//! let table = SlotTable::new();
//! table.init(1 << 46, 1 << 30);
//! let bounds = table.create(size).map(|slot| table.bounds(slot)).unwrap();
//! assert_eq!(bounds.top - bounds.bottom, stack_size(size));
//! assert_eq!(table.find(bounds.guard), Some(bounds));
//! # Ok::<(), hermit_memory::ranges::FreeError>(())
//! ```
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

pub mod bump;
pub mod frames;
pub mod freed_units;
pub mod lazy_ranges;
pub mod permanent;
pub mod ranges;
pub mod size_classes;
pub mod spans;
pub mod stack_slots;
