//! The TCP/IP stack.
//!
//! It is compiled for the program's target, with vector registers, and linked beside the kernel as an object of
//! its own that exports nothing but what the kernel calls. It is empty as yet.
#![no_std]

mod panic;
