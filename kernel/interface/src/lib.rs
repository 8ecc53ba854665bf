//! What crosses between our own parts.
//!
//! Kernel, loader, hypervisor, `hermit-sys` and the build tool agree on exactly what is written here, and each
//! layout exists once:
//!
//! | module | between |
//! | --- | --- |
//! | [`address`] | all: page sizes, address ranges |
//! | [`boot_info`] | loader or hypervisor → kernel: where the image runs and with what |
//! | [`command_line`] | build tool or hypervisor → kernel: arguments and environment |
//! | [`image`], [`note`] | image → loader, hypervisor, build tool: what may be booted |
//! | [`exit`], [`console`] | kernel → loader, build tool: how a guest ends, how input is framed |
//! | [`machine`] | hypervisor → kernel: ports and addresses of its machine |
//! | [`process`] | hypervisor ↔ kernel: the same machine as a process |
//! | [`net`] | kernel ↔ network stack: sockets, the device |
//! | [`cpu_count`], [`interface_name`], [`memory_size`], [`port_forward`], [`time_limit`] | build tool, hypervisor: values of command-line options |
//! | [`errno`] | services → system calls: why a call failed |
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(feature = "alloc", feature = "sample", test))]
extern crate alloc;

pub mod address;
pub mod boot_info;
#[cfg(any(feature = "alloc", test))]
pub mod command_line;
pub mod console;
#[cfg(any(feature = "alloc", test))]
pub mod cpu_count;
pub mod errno;
pub mod exit;
pub mod image;
#[cfg(any(feature = "alloc", test))]
pub mod interface_name;
pub mod machine;
#[cfg(any(feature = "alloc", test))]
pub mod memory_size;
pub mod net;
pub mod note;
#[cfg(any(feature = "alloc", test))]
pub mod port_forward;
pub mod process;
#[cfg(any(feature = "alloc", test))]
pub mod time_limit;

pub use errno::Errno;

/// Maximum number of CPUs of a machine, on every platform.
pub const MAX_CPUS: usize = 64;

/// An address or a size as the processor's own type: all our machines have 64 bits.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "checked at compile time")]
pub const fn to_usize(number: u64) -> usize {
    const { assert!(size_of::<usize>() == size_of::<u64>()) };
    number as usize
}
