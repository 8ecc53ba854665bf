//! A window of device registers.

use core::ptr::NonNull;

use hermit_virtio::registers::Registers;

/// Registers of a device, which nobody else has.
#[derive(Debug)]
pub struct Window {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: registers are accessed by single instructions, from whichever CPU.
unsafe impl Send for Window {}
// SAFETY: as above; the device takes one access after the other.
unsafe impl Sync for Window {}

impl Window {
    /// The registers at an address.
    ///
    /// # Safety
    ///
    /// They must be mapped there, without caching, for good.
    pub(super) unsafe fn new(start: NonNull<u8>, size: usize) -> Self {
        Self { start, size }
    }

    /// Where a register is.
    ///
    /// # Panics
    ///
    /// If it is not in the window, or not aligned.
    fn place<T>(&self, offset: usize) -> NonNull<T> {
        let end = offset.checked_add(size_of::<T>());
        assert!(end.is_some_and(|end| end <= self.size), "a register of the window");
        // SAFETY: inside of the window (checked).
        let place = unsafe { self.start.add(offset) }.cast::<T>();
        assert!(place.is_aligned(), "registers are aligned");
        place
    }

    fn read<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: mapped for good (`new`), inside and aligned (`place`).
        unsafe { self.place::<T>(offset).read_volatile() }
    }

    fn write<T: Copy>(&self, offset: usize, value: T) {
        // SAFETY: as above; what a driver has a device do with memory is confined to memory that it was given for it.
        unsafe { self.place::<T>(offset).write_volatile(value) };
    }
}

impl Registers for Window {
    fn size(&self) -> usize {
        self.size
    }

    fn read_u8(&self, offset: usize) -> u8 {
        self.read(offset)
    }

    fn read_u16(&self, offset: usize) -> u16 {
        self.read(offset)
    }

    fn read_u32(&self, offset: usize) -> u32 {
        self.read(offset)
    }

    fn write_u8(&self, offset: usize, value: u8) {
        self.write(offset, value);
    }

    fn write_u16(&self, offset: usize, value: u16) {
        self.write(offset, value);
    }

    fn write_u32(&self, offset: usize, value: u32) {
        self.write(offset, value);
    }
}
