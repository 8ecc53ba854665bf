//! The kernel: a library operating system that is linked into every image.
//!
//! This crate only assembles. Hardware is in `hermit-hal`, services are crates of their own that know nothing
//! of hardware or of each other, and what they offer becomes the ABI's functions in [`syscalls`].
#![no_std]
#![cfg_attr(
    doc,
    expect(
        rustdoc::private_intra_doc_links,
        reason = "the documentation is for readers of the source, private items included"
    )
)]

extern crate alloc;

mod command_line;
mod console;
mod descriptors;
mod devices;
mod entropy;
mod fallible;
mod files;
mod init;
mod interrupts;
mod net;
mod panic;
mod procfs;
mod program;
mod report;
mod shutdown;
mod start;
mod symbols;
mod sync;
mod syscalls;
mod threads;
