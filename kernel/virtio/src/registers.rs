//! The interface to a device's registers; the hal implements it.

use core::fmt::{self, Debug, Formatter};

/// A window of memory-mapped device registers.
///
/// The transports call it; the hal implements it over uncached mappings. Each call is one access of the named
/// width, neither elided nor merged nor reordered with other register accesses. Stores to [`DmaMemory`] that
/// precede a call are visible to the device before the access reaches it.
///
/// Callers stay inside the window and align accesses naturally. For other offsets an implementation may
/// panic, but it must not access anything outside the window.
///
/// [`DmaMemory`]: crate::dma::DmaMemory
pub trait DeviceRegisters {
    /// Size of the window in bytes.
    fn size(&self) -> usize;

    /// Reads one byte, `offset` bytes into the window.
    fn read_u8(&self, offset: usize) -> u8;

    /// Reads two bytes, little-endian.
    fn read_u16(&self, offset: usize) -> u16;

    /// Reads four bytes, little-endian.
    fn read_u32(&self, offset: usize) -> u32;

    /// Writes one byte.
    fn write_u8(&self, offset: usize, value: u8);

    /// Writes two bytes, little-endian.
    fn write_u16(&self, offset: usize, value: u16);

    /// Writes four bytes, little-endian.
    fn write_u32(&self, offset: usize, value: u32);

    /// Writes eight bytes as two accesses, the low half first (virtio 1.2, sections 4.1.3.1 and 4.2.2.2).
    fn write_u64(&self, offset: usize, value: u64) {
        let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
        self.write_u32(offset, u32::from_le_bytes([a, b, c, d]));
        self.write_u32(offset + 4, u32::from_le_bytes([e, f, g, h]));
    }
}

impl Debug for dyn DeviceRegisters + '_ {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("DeviceRegisters")
    }
}
