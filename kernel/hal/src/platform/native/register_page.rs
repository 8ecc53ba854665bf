//! A page of memory-mapped device registers of 32 bits.

use core::ptr;
use core::sync::atomic::AtomicPtr;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;

use crate::fallible::OutOfMemory;
use crate::memory::map_registers;

/// Number of registers in one page.
const COUNT: usize = to_usize(PAGE_SIZE) / size_of::<u32>();

/// The registers of a device whose accesses cannot affect memory, once they are mapped.
#[derive(Debug)]
pub(in crate::platform) struct RegisterPage(AtomicPtr<u32>);

impl RegisterPage {
    /// A page that is not mapped yet.
    pub(in crate::platform) const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    /// Maps the page at a physical address, which is a multiple of the page size. Fails if there may be
    /// memory at this address.
    ///
    /// # Safety
    ///
    /// The page must consist of device registers, and no access to them may make the device change memory
    /// that is in use.
    pub(in crate::platform) unsafe fn map(&self, physical: u64) -> Result<(), OutOfMemory> {
        self.0.store(map_registers(physical, PAGE_SIZE)?.ok_or(OutOfMemory)?.cast().as_ptr(), Relaxed);
        Ok(())
    }

    /// Returns true if the page is mapped.
    pub(in crate::platform) fn is_mapped(&self) -> bool {
        !self.0.load(Relaxed).is_null()
    }

    /// Address of a register. `number` is the register's offset in words of 32 bits.
    ///
    /// # Panics
    ///
    /// If the page is not mapped, or the number is beyond its end.
    fn register(&self, number: usize) -> *mut u32 {
        assert!(self.is_mapped() && number < COUNT, "a register of the page");
        // SAFETY: the page is mapped and has a register of this number (asserted).
        unsafe { self.0.load(Relaxed).add(number) }
    }

    /// Reads a register.
    pub(in crate::platform) fn read(&self, number: usize) -> u32 {
        // SAFETY: the register is inside of the page, which stays mapped, and aligned as words of a page are;
        // reading it does not affect memory (contract of `map`).
        unsafe { self.register(number).read_volatile() }
    }

    /// Writes a register.
    pub(in crate::platform) fn write(&self, number: usize, value: u32) {
        // SAFETY: the register is inside of the page, which stays mapped, and aligned as words of a page are;
        // writing it does not affect memory (contract of `map`).
        unsafe { self.register(number).write_volatile(value) };
    }
}

#[cfg(test)]
mod tests {
    use super::RegisterPage;

    /// The firmware's tables contain the addresses of the HPET and the local APIC, and may contain addresses
    /// of memory instead.
    #[test]
    #[expect(unsafe_code, reason = "mapping of device registers is unsafe")]
    fn page_that_may_be_memory_is_not_mapped() {
        let page = RegisterPage::new();
        for physical in [0, 0x10_0000, 0xfed0_0000, u64::MAX - 0xfff] {
            // SAFETY: no boot information was read, so every address counts as memory. Nothing is mapped or
            // accessed.
            assert!(unsafe { page.map(physical) }.is_err(), "{physical:#x}");
        }
        assert!(!page.is_mapped());
    }
}
