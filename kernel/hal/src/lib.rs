//! The hardware abstraction layer: the part of the kernel that touches hardware.
//!
//! Only this crate, the system-call shims, the entry points and the network stack's two tables of functions
//! contain `unsafe` kernel code. All other code is safe Rust that uses what this crate offers:
//!
//! | module | offers |
//! | --- | --- |
//! | [`boot`] | the entry point, and the boot information |
//! | [`memory`] | the heap, stacks with guard pages, thread-local storage, mappings |
//! | [`interrupts`] | the software interrupt mask, interrupt lines, waiting for an interrupt |
//! | [`sync`] | spinlocks that mask interrupts |
//! | [`once`] | values that are initialised once |
//! | [`clock`] | monotonic and wall-clock time, and each CPU's timer |
//! | [`console`], [`exit`], [`power_button`] | text output and input, the end of the machine, requests to end |
//! | [`cpus`] | the CPUs of the machine, the reschedule IPI, per-CPU variables |
//! | [`thread`] | threads as the processor sees them, and the context switch |
//! | [`waker`] | wakers that take no memory |
//! | [`entropy`] | random bits from the processor |
//! | [`devices`] | registers, DMA memory and MSI messages, for drivers |
//! | [`fault`], [`stop`] | faults of programs, and backtraces; stopping the other CPUs |
//! | [`symbols`] | the image's symbol table |
//! | [`initramfs`] | the initramfs |
//!
//! # Layers
//!
//! A layer imports only the layers below it. Code that depends on the processor is at the bottom, in `arch`,
//! which documents its contract. Code that depends on the machine is at the top, in `platform`. The layers
//! between call it through the traits in `ops`, one for each concern.
//!
//! ```text
//! boot                                     initialises everything, in order
//! platform {pc, uhyve, process, native}    implements ops
//! traps, cpus, devices, thread             dispatch of exceptions, secondary CPUs, drivers' needs, context switch
//! fault, memory                            page tables, frames, heap, stacks
//! clock, sync                              time, spinlocks
//! interrupts                               the software interrupt mask
//! tlb, backoff, stop                       TLB shootdown, stopping the other CPUs
//! ops, cpu_local                           platform operations (traits), the CPU-local block
//! arch                                     the processor
//! once                                     values that are initialised once
//! ```
#![no_std]
#![cfg_attr(
    doc,
    expect(
        rustdoc::private_intra_doc_links,
        reason = "the documentation is for readers of the source, private items included"
    )
)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[doc(hidden)]
pub mod arch;
mod backoff;
pub mod boot;
pub mod clock;
pub mod console;
mod cpu_local;
pub mod cpus;
pub mod devices;
pub mod entropy;
pub mod exit;
mod fallible;
pub mod fault;
pub mod initramfs;
pub mod interrupts;
pub mod memory;
pub mod once;
mod ops;
mod platform;
pub mod power_button;
pub mod stop;
pub mod symbols;
pub mod sync;
#[cfg(test)]
mod testing;
pub mod thread;
mod tlb;
mod traps;
pub mod try_alloc;
pub mod waker;
