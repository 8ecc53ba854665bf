//! What belongs to one CPU, found through the GS base.

use core::arch::asm;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;

/// A CPU's own data. Other CPUs never touch it, so that relaxed atomics suffice: they only make it well-defined
/// that an interrupt on the same CPU reads and writes it too.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Local {
    /// Its own address, so that one load from the GS base finds it.
    this: AtomicPtr<Self>,
    /// How many times interrupts are masked.
    pub(crate) mask_depth: AtomicU32,
    /// Interrupt lines that were raised while masked, one bit each.
    pub(crate) pending: AtomicU32,
    /// An interrupt was handled since the last [`crate::interrupts::wait`].
    pub(crate) woken: AtomicBool,
}

static BOOT_CPU: Local = Local {
    this: AtomicPtr::new(ptr::null_mut()),
    // Masked until the platform is ready for interrupts.
    mask_depth: AtomicU32::new(1),
    pending: AtomicU32::new(0),
    woken: AtomicBool::new(false),
};

/// Gives the first CPU its data. Locks work from here on.
pub(super) fn init_boot_cpu() {
    let address = (&raw const BOOT_CPU).cast_mut();
    BOOT_CPU.this.store(address, core::sync::atomic::Ordering::Relaxed);
    GsBase::write(VirtAddr::from_ptr(address));
}

/// The data of the CPU that runs this.
#[inline]
pub(crate) fn current() -> &'static Local {
    let this: *const Local;
    // SAFETY: the GS base is the address of a `Local`, whose first field is its own address, before any code
    // but the entry runs; nobody changes it.
    unsafe { asm!("mov {}, gs:[0]", out(reg) this, options(nostack, readonly, preserves_flags, pure)) };
    // SAFETY: a `Local` is a static, and it is only ever shared.
    unsafe { &*this }
}
