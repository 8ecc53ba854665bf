//! The arithmetic of memory: [`classes`] of the sizes that the heap keeps free blocks of, and [`slots`] of addresses for
//! stacks.
#![no_std]
#![forbid(unsafe_code)]

pub mod classes;
pub mod slots;
