//! Device registers in the I/O port space.

use core::arch::asm;
use core::marker::PhantomData;

use x86_64::instructions::port::Port;
use x86_64::structures::port::{PortRead, PortWrite};

/// A device register of the type `T` (8, 16 or 32 bits) in the I/O port space. Accesses to it cannot affect
/// memory.
#[derive(Debug)]
pub(crate) struct Register<T = u8>(u16, PhantomData<fn(T) -> T>);

impl<T: PortRead + PortWrite> Register<T> {
    /// The register at a port.
    ///
    /// # Safety
    ///
    /// Neither a read of the port nor a write of any value may make a device or the processor change memory
    /// that is in use, by DMA for instance. A port without a device fulfils this: writes to it are dropped.
    pub(crate) const unsafe fn new(port: u16) -> Self {
        Self(port, PhantomData)
    }

    /// Reads the register.
    pub(crate) fn read(&self) -> T {
        // SAFETY: reading this port cannot affect memory (contract of `new`).
        unsafe { Port::new(self.0).read() }
    }

    /// Writes the register.
    pub(crate) fn write(&self, value: T) {
        // SAFETY: writing any value to this port cannot affect memory (contract of `new`).
        unsafe { Port::new(self.0).write(value) }
    }
}

/// Writes 32 bits to a port whose device changes memory before the instruction ends. The compiler moves no
/// access to memory across the write.
///
/// # Safety
///
/// The device at the port must not change memory that is in use because of this value.
pub(crate) unsafe fn write_memory_command(port: u16, value: u32) {
    // SAFETY: the caller ensures that the device changes no memory that is in use (contract). Without `nomem`
    // and `readonly` the compiler assumes that the instruction reads and writes memory: stores of the
    // memory's last user stay before it, those of the next one after it. `Port::write` has `nomem`, so it is
    // not used here.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags)) }
}
