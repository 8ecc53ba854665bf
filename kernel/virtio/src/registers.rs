//! The seam to a device's registers; the hal implements it.

use core::fmt::Debug;

/// A window of device registers.
///
/// The transports call this; the hal implements it over mapped memory, without caching. Each call is one access of that
/// width, neither left out nor merged nor moved across other accesses to registers. What was stored in [`DmaMemory`]
/// before a call can be seen by the device before the access arrives there.
///
/// Callers stay inside of the window and keep to natural alignment. An implementation need not do more than make sure
/// that it touches nothing else if they do not: it may panic.
///
/// [`DmaMemory`]: crate::memory::DmaMemory
pub trait Registers: Debug {
    /// Bytes of the window.
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
