//! A page of device registers of 32 bits.

use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use crate::memory::{OutOfMemory, map_device_page};

/// Registers in one page.
const COUNT: usize = 4096 / 4;

/// The registers of a device whose accesses cannot harm memory, once it has been found.
#[derive(Debug)]
pub(super) struct Registers(AtomicPtr<u32>);

impl Registers {
    /// No device has been found.
    pub(super) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Maps the page at a physical address.
    ///
    /// # Safety
    ///
    /// It must be that of a device, and nothing that is read or written there may affect memory.
    pub(super) unsafe fn map(&self, physical: u64) -> Result<(), OutOfMemory> {
        self.0.store(map_device_page(physical)?.as_ptr(), Relaxed);
        Ok(())
    }

    /// Whether the page is mapped.
    pub(super) fn are_mapped(&self) -> bool {
        !self.0.load(Relaxed).is_null()
    }

    /// The register of this number, counted in words.
    fn register(&self, number: usize) -> *mut u32 {
        assert!(self.are_mapped() && number < COUNT, "a register of the page");
        // SAFETY: within the page (checked).
        unsafe { self.0.load(Relaxed).add(number) }
    }

    /// Reads a register.
    pub(super) fn read(&self, number: usize) -> u32 {
        // SAFETY: the page is mapped, to registers that do not affect memory.
        unsafe { self.register(number).read_volatile() }
    }

    /// Writes a register.
    pub(super) fn write(&self, number: usize, value: u32) {
        // SAFETY: the page is mapped, to registers that do not affect memory.
        unsafe { self.register(number).write_volatile(value) };
    }
}
