//! The machine that uhyve emulates: ports, address map and interrupts.
//!
//! Memory starts at address 0, with a hole below 4 GiB ([`HOLE`]). Each CPU has a local APIC, whose ID is the
//! CPU's number. Virtio-mmio devices lie in the hole, listed in boot information. Interrupt line `n` is
//! edge-triggered, has vector [`FIRST_VECTOR`]` + n`, and is delivered to CPU 0. It needs only an EOI to the
//! local APIC. The first console device has standard input and output, and the second one, if there is one,
//! standard error. [`crate::exit`] describes the exit ports. [`CLOCK`] is the host's clock. There is no
//! serial port, no 8259A, I/O APIC, 8254 or RTC, no PCI and no firmware.

use crate::boot_info::Region;

/// I/O port for text to standard output, written as bytes or strings (`OUTS`), without a driver.
pub const TEXT_PORT: u16 = 0xe9;

/// I/O port for text to standard error, as [`TEXT_PORT`]: for reports that must not depend on a console
/// device.
pub const ERROR_TEXT_PORT: u16 = 0xea;

/// I/O port by which the guest returns free memory to the host: a word of 32 bits ([`encode_returned`]). The
/// contents of that memory are lost: the next access finds zeros. The port exists only if the hypervisor
/// announces it ([`crate::boot_info::TAKES_MEMORY_BACK`]).
pub const RETURN_PORT: u16 = 0xfa;

/// Unit in which memory is returned, in bytes.
pub const RETURN_UNIT: u64 = 64 << 10;

/// Maximum size in bytes of the memory that one write to [`RETURN_PORT`] returns. It bounds the time that the
/// write takes.
pub const MAX_RETURNED: u64 = 2 << 20;

/// Number of low bits in a word of [`encode_returned`] that hold the number of units. The bits above them
/// hold the number of the first unit.
const UNIT_COUNT_BITS: u32 = 6;

/// Encodes `size` bytes of physical memory at `start` for [`RETURN_PORT`]. Returns `None` if they do not fit
/// into the word: they must be 1 to [`MAX_RETURNED`]` / `[`RETURN_UNIT`] whole units below 4 TiB.
#[must_use]
pub fn encode_returned(start: u64, size: u64) -> Option<u32> {
    let is_valid = start.is_multiple_of(RETURN_UNIT)
        && size.is_multiple_of(RETURN_UNIT)
        && (RETURN_UNIT..=MAX_RETURNED).contains(&size);
    let first = u32::try_from(start / RETURN_UNIT).ok().filter(|_| is_valid)?;
    let count = u32::try_from(size / RETURN_UNIT).ok()?;
    (first >> (u32::BITS - UNIT_COUNT_BITS) == 0).then_some(first << UNIT_COUNT_BITS | count)
}

/// Decodes a word that was written to [`RETURN_PORT`]. `None` if it is invalid.
#[must_use]
pub fn decode_returned(word: u32) -> Option<Region> {
    let (first, count) = (u64::from(word >> UNIT_COUNT_BITS), u64::from(word & ((1 << UNIT_COUNT_BITS) - 1)));
    let size = count * RETURN_UNIT;
    (RETURN_UNIT..=MAX_RETURNED).contains(&size).then_some(Region { start: first * RETURN_UNIT, size })
}

/// Hole in physical memory, where virtio-mmio devices and local APICs lie.
pub const HOLE: Region = Region { start: 0xd000_0000, size: 0x3000_0000 };

/// Registers of the host's clock, at the addresses after those of the devices. A register is read by one
/// access of eight bytes. All ones mean that the hypervisor does not know the register.
pub const CLOCK: Region = Region { start: HOLE.start + 0x1000 * LINES as u64, size: 16 };

/// Offset in [`CLOCK`]: the host's wall clock at the moment of the access, in nanoseconds since 1970 (UTC).
pub const CLOCK_WALL: usize = 0;

/// Offset in [`CLOCK`]: frequency of the time-stamp counter in Hz, as measured from the start of the machine
/// to the moment of the access.
pub const CLOCK_FREQUENCY: usize = 8;

/// Vector of interrupt line 0.
pub const FIRST_VECTOR: u8 = 32;

/// Number of interrupt lines.
pub const LINES: u32 = 16;

/// Interrupt line of the power button. An interrupt is the host's request to the program to end. No device
/// uses this line.
pub const POWER_BUTTON_LINE: u32 = LINES - 1;

#[cfg(test)]
mod tests {
    use super::{MAX_RETURNED, RETURN_UNIT, decode_returned, encode_returned};
    use crate::boot_info::Region;

    /// First address that does not fit into the word.
    const END: u64 = 4 << 40;

    #[test]
    fn returned_range_is_decoded_as_it_was_encoded() {
        for (start, size) in
            [(0, RETURN_UNIT), (7 * RETURN_UNIT, MAX_RETURNED), (END - RETURN_UNIT, RETURN_UNIT)]
        {
            let word = encode_returned(start, size).unwrap();
            assert_eq!(decode_returned(word), Some(Region { start, size }));
        }
    }

    #[test]
    fn invalid_range_is_not_encoded() {
        let unit = RETURN_UNIT;
        for (start, size) in [
            (0, 0),
            (0, unit + 1),
            (1, unit),
            (0x1000, unit),
            (0, MAX_RETURNED + unit),
            (END, unit),
            (u64::MAX - unit + 1, unit),
        ] {
            assert_eq!(encode_returned(start, size), None, "{start:#x}, {size:#x}");
        }
        let most = u32::try_from(MAX_RETURNED / RETURN_UNIT).unwrap();
        for word in [0, 1 << 6, most + 1, u32::MAX] {
            assert_eq!(decode_returned(word), None, "{word:#x}");
        }
    }
}
