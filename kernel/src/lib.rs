//! The kernel: a library operating system that is linked into every image.
//!
//! This crate only connects other crates. `hermit-hal` contains the code for the hardware. Services are
//! crates of their own, which know nothing of the hardware or of each other. [`syscalls`] makes them
//! available as the functions of the ABI.
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
