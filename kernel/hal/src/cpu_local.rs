//! The CPU-local block: data of a CPU that only this CPU uses.

#[cfg(any(feature = "tlsf", not(feature = "bump")))]
pub(crate) mod free_blocks;
#[cfg(all(feature = "bump", not(feature = "tlsf")))]
pub(crate) mod heap_region;

use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicPtr};

use crate::arch::context::Context;
use crate::arch::local::{self, Base, LocalHeader};
#[cfg(any(feature = "tlsf", not(feature = "bump")))]
use free_blocks::FreeBlocks as LocalHeap;
#[cfg(all(feature = "bump", not(feature = "tlsf")))]
use heap_region::HeapRegion as LocalHeap;

/// The data of one CPU. Other CPUs do not access it. The fields are relaxed atomics, because an interrupt on
/// the same CPU accesses them, too.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct CpuLocal {
    pub(crate) header: LocalHeader,
    /// True if an interrupt was handled since the last [`crate::interrupts::wait`].
    pub(crate) woken: AtomicBool,
    /// True if another thread should run.
    pub(crate) reschedule: AtomicBool,
    /// The context of the running thread; [`NO_THREAD`] before there is one.
    pub(crate) current: AtomicPtr<Context>,
    /// The value of the [`crate::cpus::PerCpu`] that is set on this CPU.
    pub(crate) value: AtomicPtr<()>,
    /// The address of that `PerCpu`.
    pub(crate) value_owner: AtomicPtr<()>,
    /// Free memory of the heap.
    pub(crate) heap: LocalHeap,
}

impl CpuLocal {
    /// Creates the block for the CPU of this number. The block of CPU 0 is all zero, so it takes no space in
    /// the image's file. [`Self::base`] sets the fields that must not be zero.
    pub(crate) const fn new(number: u32) -> Self {
        Self {
            header: LocalHeader::new(number),
            woken: AtomicBool::new(false),
            reschedule: AtomicBool::new(false),
            current: AtomicPtr::new(ptr::null_mut()),
            value: AtomicPtr::new(ptr::null_mut()),
            value_owner: AtomicPtr::new(ptr::null_mut()),
            heap: LocalHeap::new(),
        }
    }

    /// Initialises the block, and returns the base with which a CPU installs it. The block starts with
    /// interrupts masked once, until the CPU is ready for them.
    pub(crate) fn base(&'static self) -> Base {
        self.current.store((&raw const NO_THREAD).cast_mut(), Relaxed);
        #[cfg(any(feature = "tlsf", not(feature = "bump")))]
        self.heap.init();
        Base::new(self, |block| &block.header)
    }
}

/// The context of a CPU before it has a thread. No thread has this context, so no switch resumes it.
pub(crate) static NO_THREAD: Context = Context::new();

/// The block of the first CPU.
pub(crate) static BOOT_CPU: CpuLocal = CpuLocal::new(0);

/// The block of the calling CPU. Interrupts are masked while it is used, so that the thread does not move to
/// another CPU.
#[inline]
pub(crate) fn current() -> &'static CpuLocal {
    // SAFETY: every `Base` is made by `CpuLocal::base`, so the block of each CPU is a `CpuLocal`; it is
    // static or leaked, and only shared references to it exist.
    unsafe { &*local::block().cast::<CpuLocal>() }
}

/// The value of [`CpuLocal::value`] of the calling CPU, if [`CpuLocal::value_owner`] is `owner`. Interrupts
/// are masked.
#[inline]
pub(crate) fn value(owner: *mut ()) -> Option<*mut ()> {
    // SAFETY: the block of each CPU is a `CpuLocal` (see `current`), whose field this is, an atomic of 64
    // bits.
    let is_owner = unsafe { local::is::<{ offset_of!(CpuLocal, value_owner) }>(owner) };
    // SAFETY: the block of each CPU is a `CpuLocal`, which has an atomic of 64 bits at the offset of `value`.
    is_owner.then(|| unsafe { local::load::<{ offset_of!(CpuLocal, value) }>() })
}

/// Replaces [`CpuLocal::current`] of the calling CPU; returns the previous context. Interrupts are masked.
#[inline]
pub(crate) fn replace_context(context: &'static Context) -> *mut Context {
    const OFFSET: usize = offset_of!(CpuLocal, current);
    // SAFETY: the block of each CPU is a `CpuLocal` (see `current`), whose field this is, an atomic of 64
    // bits.
    let before = unsafe { local::load::<OFFSET>() };
    // SAFETY: the block of each CPU is a `CpuLocal`, whose `current` may be a pointer to any static context.
    unsafe { local::store::<OFFSET>(ptr::from_ref(context).cast_mut().cast()) };
    before.cast()
}
