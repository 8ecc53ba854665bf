//! Arithmetic of memory allocation: which memory and which addresses are free, and how large a block is.
//!
//! | module | |
//! | --- | --- |
//! | [`ranges`] | a table of free ranges with a fixed capacity, for loader, hypervisor and kernel |
//! | [`frames`] | the frame allocator: free physical memory as a tree that lies in the free memory itself |
//! | [`size_classes`] | the block sizes of which the heap keeps free lists |
//! | [`stack_slots`] | the addresses of thread stacks and of their guard pages |
#![no_std]
#![forbid(unsafe_code)]

pub mod frames;
pub mod ranges;
pub mod size_classes;
pub mod stack_slots;
