//! Primitives below the services: what more than one of them needs to allocate, to lock, and to wait.
//!
//! | module | contents |
//! | --- | --- |
//! | [`lock`] | the trait of locks that run an action |
//! | [`sync`] | atomics, cells and locks that the models replace by loom's |
#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "alloc")]
extern crate alloc;

pub mod lock;
pub mod sync;
