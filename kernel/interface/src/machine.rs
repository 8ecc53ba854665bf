//! The machine that our hypervisor makes: what is at which port and which address.
//!
//! There is memory from address 0 on, with a hole below 4 GiB ([`HOLE`]); a local APIC for each CPU, whose identifier is
//! the CPU's number; devices behind virtio-mmio registers in the hole, as boot information lists them. Line `n` is an
//! edge-triggered interrupt with vector [`FIRST_VECTOR`]` + n` that CPU 0 gets; nothing but the APIC is to be told that it
//! has been handled. [`crate::exit`] says how a guest ends. There is no serial port, no 8259A, I/O APIC, 8254 or
//! RTC, no PCI and no firmware.

use crate::boot_info::Region;

/// I/O port that takes text, a byte or a string of bytes at a time: reports that cannot wait for the console device.
pub const TEXT_PORT: u16 = 0xe9;

/// Addresses at which there is never memory.
pub const HOLE: Region = Region { start: 0xd000_0000, size: 0x3000_0000 };

/// Vector of line 0.
pub const FIRST_VECTOR: u8 = 32;

/// How many lines there are.
pub const LINES: u32 = 16;
