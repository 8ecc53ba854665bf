//! The machine that uhyve emulates: ports, address map and interrupts.
//!
//! Memory starts at address 0, with a hole below 4 GiB ([`HOLE`]). Each CPU has a local APIC, whose ID is the CPU's
//! number. Virtio-mmio devices lie in the hole, listed in boot information. Interrupt line `n` is edge-triggered,
//! with vector [`FIRST_VECTOR`]` + n`, and delivered to CPU 0; it needs an EOI to the local APIC only.
//! The first console device has standard input and output, and the second one, if there is one, standard error.
//! [`crate::exit`] describes the exit ports. [`CLOCK`] is the host's clock. There is no serial port, no 8259A, I/O APIC,
//! 8254 or RTC, no PCI and no firmware.

use crate::boot_info::Region;

/// I/O port for text to standard output, written as bytes or strings (`OUTS`), without a driver.
pub const TEXT_PORT: u16 = 0xe9;

/// I/O port for text to standard error, as [`TEXT_PORT`]: for reports that must not depend on a console device.
pub const ERROR_TEXT_PORT: u16 = 0xea;

/// Hole in physical memory, where virtio-mmio devices and local APICs lie.
pub const HOLE: Region = Region { start: 0xd000_0000, size: 0x3000_0000 };

/// Registers of the host's clock, behind those of the devices. Each is read by one access of eight bytes; all ones mean
/// that the hypervisor does not know it.
pub const CLOCK: Region = Region { start: HOLE.start + 0x1000 * LINES as u64, size: 16 };

/// Offset in [`CLOCK`]: the host's wall clock at the moment of the access, in nanoseconds since 1970 (UTC).
pub const CLOCK_WALL: usize = 0;

/// Offset in [`CLOCK`]: frequency of the time-stamp counter in Hz, as measured from the start of the machine to the
/// moment of the access.
pub const CLOCK_FREQUENCY: usize = 8;

/// Vector of interrupt line 0.
pub const FIRST_VECTOR: u8 = 32;

/// Number of interrupt lines.
pub const LINES: u32 = 16;

/// Interrupt line of the power button: an interrupt is the host's request to the program to end. No device has it.
pub const POWER_BUTTON_LINE: u32 = LINES - 1;
