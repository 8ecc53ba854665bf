//! Primitives below the services: what more than one of them needs to allocate, to lock, and to wait.
//!
//! | module | contents |
//! | --- | --- |
//! | [`bits`] | sets of small numbers as the bits of a word |
//! | [`lock`] | the trait of locks that run an action |
//! | [`sync`] | atomics, cells and locks that the models replace by loom's |
//! | [`try_alloc`] | allocation that fails instead of ending the machine |
//! | [`wait`] | queues of the tasks that wait for a change |
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

pub mod bits;
#[cfg(feature = "lock")]
pub mod lock;
pub mod sync;
#[cfg(feature = "alloc")]
pub mod try_alloc;
#[cfg(all(feature = "alloc", feature = "lock"))]
pub mod wait;
