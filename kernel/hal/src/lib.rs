//! The part of the kernel that touches hardware.
//!
//! With the system-call shims, the entry points and the network stack's two tables of functions this is the only kernel
//! code that is `unsafe`; everything above it is safe Rust over what this crate offers:
//!
//! | module | offers |
//! | --- | --- |
//! | [`boot`] | the entry point, and what the loader said |
//! | [`memory`] | the heap, stacks with guard pages, thread-local storage |
//! | [`interrupts`] | the software interrupt mask, waiting for an interrupt |
//! | [`sync`] | locks that mask interrupts |
//! | [`clock`] | monotonic and wall-clock time |
//! | [`console`], [`exit`] | text in and out, the end of the machine |
//! | [`entropy`] | random bits from hardware |
//! | [`devices`] | registers, memory and interrupts of devices, for drivers |
//! | [`fault`] | what the processor reports when a program goes wrong |
//! | [`symbols`] | the names of the image's functions, as bytes |
//! | [`thread`] | entering a thread on its stack |
//!
//! What differs between machines is behind one seam, `platform`; what differs between processors is in
//! `arch`.
#![no_std]

extern crate alloc;

#[doc(hidden)]
pub mod arch;
pub mod boot;
pub mod clock;
pub mod console;
pub mod cpus;
pub mod devices;
pub mod entropy;
pub mod exit;
pub mod fault;
pub mod interrupts;
pub mod memory;
mod paravirtual;
mod platform;
pub mod symbols;
pub mod sync;
pub mod thread;
