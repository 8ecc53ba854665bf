//! What belongs to one CPU, found through the GS base.

use core::arch::asm;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;

use crate::memory::Caches;
use crate::thread::Thread;

/// A CPU's own data. Other CPUs do not touch it unless a field says so, so that relaxed atomics suffice: they only
/// make it well-defined that an interrupt on the same CPU reads and writes it too.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Local {
    /// Its own address, so that one load from the GS base finds it.
    this: AtomicPtr<Self>,
    /// How many times interrupts are masked.
    pub(crate) mask_depth: AtomicU32,
    /// Interrupt lines that were raised while masked, one bit each.
    pub(crate) pending: AtomicU32,
    /// The CPU's number.
    pub(crate) number: AtomicU32,
    /// An interrupt was handled since the last [`crate::interrupts::wait`].
    pub(crate) woken: AtomicBool,
    /// Somebody else is to run.
    pub(crate) reschedule: AtomicBool,
    /// Where the thread goes on that an interrupt has preempted.
    pub(crate) resume: AtomicU64,
    /// The thread that runs.
    pub(crate) thread: AtomicPtr<Thread>,
    /// What [`crate::cpus::PerCpu`] gives out on this CPU, and to whom it belongs.
    pub(crate) own: AtomicPtr<()>,
    pub(crate) owner: AtomicPtr<()>,
    /// Free blocks of the heap.
    pub(crate) caches: Caches,
}

/// Offset of the mask's depth, for assembly.
pub(crate) const MASK_DEPTH: usize = offset_of!(Local, mask_depth);
/// Offset of the pending lines.
pub(crate) const PENDING: usize = offset_of!(Local, pending);
/// Offset of the CPU's number.
const NUMBER: usize = offset_of!(Local, number);
/// Offset of where a preempted thread goes on.
pub(crate) const RESUME: usize = offset_of!(Local, resume);

impl Local {
    /// For the CPU of this number; interrupts are masked until it is ready for them.
    pub(crate) const fn new(number: u32) -> Self {
        Self {
            this: AtomicPtr::new(ptr::null_mut()),
            mask_depth: AtomicU32::new(1),
            pending: AtomicU32::new(0),
            number: AtomicU32::new(number),
            woken: AtomicBool::new(false),
            reschedule: AtomicBool::new(false),
            resume: AtomicU64::new(0),
            thread: AtomicPtr::new(ptr::null_mut()),
            own: AtomicPtr::new(ptr::null_mut()),
            owner: AtomicPtr::new(ptr::null_mut()),
            caches: Caches::new(),
        }
    }

    /// Makes this the data of the CPU that calls.
    pub(super) fn install(&'static self) {
        GsBase::write(VirtAddr::new(self.place()));
    }

    /// As [`Self::install`], where the processor lets everybody do so (FSGSBASE).
    pub(crate) fn install_unprivileged(&'static self) {
        // SAFETY: the caller says that the processor has the instruction; nothing used the base before.
        unsafe { asm!("wrgsbase {}", in(reg) self.place(), options(nostack, preserves_flags)) };
    }

    /// Where it is, from now on known to itself.
    fn place(&'static self) -> u64 {
        let address = ptr::from_ref(self).cast_mut();
        self.this.store(address, Relaxed);
        address.addr() as u64
    }
}

/// The first CPU's data.
pub(super) static BOOT_CPU: Local = Local::new(0);

/// The data of the CPU that runs this. The thread must not move to another CPU while it uses it: interrupts are
/// masked.
#[inline]
pub(crate) fn current() -> &'static Local {
    let this: *const Local;
    // SAFETY: the GS base is the address of a `Local`, whose first field is its own address, before any code
    // but the entry runs; nobody changes it.
    unsafe { asm!("mov {}, gs:[0]", out(reg) this, options(nostack, readonly, preserves_flags)) };
    // SAFETY: a `Local` lives for ever, and it is only ever shared.
    unsafe { &*this }
}

/// The number of the CPU that runs this.
#[inline]
pub(crate) fn number() -> u32 {
    let number: u32;
    // SAFETY: as in `current`.
    unsafe {
        asm!("mov {:e}, gs:[{offset}]", out(reg) number, offset = const NUMBER, options(nostack, readonly, preserves_flags));
    }
    number
}

/// How many times interrupts are masked on the CPU that runs this.
#[inline]
pub(crate) fn mask_depth() -> u32 {
    let depth: u32;
    // SAFETY: as in `current`.
    unsafe {
        asm!("mov {:e}, gs:[{offset}]", out(reg) depth, offset = const MASK_DEPTH, options(nostack, readonly, preserves_flags));
    }
    depth
}
