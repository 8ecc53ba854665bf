//! The network stack of an image as an object file: the TCP/IP stack behind a table of C functions.
//!
//! The stack proper is `hermit-net-stack`, which knows nothing of the kernel. This crate connects the two:
//! the stack's functions become the table [`hermit_interface::net::Calls`], and the kernel's table
//! [`hermit_interface::net::Services`] becomes the stack's network device and host. It is compiled for the
//! program's target, with vector registers. It is linked next to the kernel as an object file of its own. Its
//! only visible symbol is [`hermit_interface::net::START`]. A program without sockets does not contain it.
//!
//! | module | what |
//! | [`start`] | the entry point: creates the stack |
//! | [`start`] | the entry point: creates the stack |
//! | [`calls`] | the stack's functions for the kernel |
//! | [`arguments`] | the pointers that the kernel passes to them |
//! | [`kernel`] | the kernel's functions for the stack |
//! | [`addresses`] | conversion of addresses |
//! | [`heap`], [`panic`] | global allocator and panic handler |
#![no_std]

extern crate alloc;

mod addresses;
mod arguments;
mod calls;
mod heap;
mod kernel;
mod panic;
mod start;
