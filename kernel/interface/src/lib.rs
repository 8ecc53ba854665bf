//! Layouts, numbers and formats that kernel, loader, hypervisor, network stack and build tool share. Each is
//! defined once, here.
//!
//! | module | contents |
//! | --- | --- |
//! | [`address`] | page sizes, address ranges |
//! | [`boot_info`] | boot information, from loader or hypervisor to kernel |
//! | [`command_line`] | the kernel command line, from build tool or hypervisor to kernel |
//! | [`boot_image`] | a loader with an executable |
//! | [`tar`] | the initramfs |
//! | [`image`], [`note`] | the image format and its check, for loader, hypervisor and build tool |
//! | [`exit`], [`console`] | exit ports and statuses; control bytes of console input |
//! | [`machine`] | the machine that uhyve emulates |
//! | [`process`] | the machine as a Linux process |
//! | [`net`] | function tables between kernel and network stack |
//! | [`readiness`] | readiness of an object for I/O |
//! | [`cpu_count`], [`interface_name`], [`memory_size`], [`port_forward`], [`time_limit`] | values of command-line options of build tool and hypervisor |
//! | [`errno`] | error numbers |
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(feature = "alloc", feature = "sample", test))]
extern crate alloc;

pub mod address;
pub mod boot_image;
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
pub mod readiness;
pub mod tar;
#[cfg(any(feature = "alloc", test))]
pub mod time_limit;

pub use errno::Errno;
pub use readiness::Readiness;

/// Maximum number of CPUs of a machine, on every platform.
pub const MAX_CPUS: usize = 64;

/// Maximum length of the name of a file in bytes (`NAME_MAX`).
pub const MAX_NAME: usize = 255;

/// Maximum length of a path in bytes: Linux's `PATH_MAX` without the zero byte.
pub const MAX_PATH: usize = 4095;

/// Converts an address or a size to `usize`: all supported processors have 64 bits.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "checked at compile time")]
pub const fn to_usize(number: u64) -> usize {
    const { assert!(size_of::<usize>() == size_of::<u64>()) };
    number as usize
}
