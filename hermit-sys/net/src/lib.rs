//! The TCP/IP stack as the kernel calls it.
//!
//! It is compiled for the program's target, with vector registers, and linked beside the kernel as an object of
//! its own that exports nothing but [`hermit_interface::net::START`]. All that is done is done in `hermit-net-stack`; here its
//! functions become a table of C's, and the kernel's table becomes its device and its host.
#![no_std]

extern crate alloc;

mod addresses;
mod calls;
mod heap;
mod kernel;
mod options;
mod panic;
mod start;
