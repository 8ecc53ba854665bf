//! The CPU-local block, which a CPU finds through its GS base, and the software interrupt mask in it.
//!
//! The block's type belongs to a higher layer ([`crate::cpu_local`]). This file has its header, which
//! assembly reads. The mask is a counter: masking and unmasking are one instruction each. The same word also
//! has a bit that is set while no line is pending. So an unmask needs no separate test for pending lines:
//! there is something to handle only if its decrement makes the word zero.

#[cfg(any(feature = "tlsf", not(feature = "bump")))]
pub(crate) mod indexed;

use core::arch::asm;
use core::mem::offset_of;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use x86_64::VirtAddr;
use x86_64::registers::model_specific::GsBase;

/// The first fields of every CPU-local block. Only the CPU itself uses them. They are relaxed atomics,
/// because an interrupt on the same CPU uses them, too.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct LocalHeader {
    /// The block's own address, so that one load through the GS base finds it.
    this: AtomicPtr<()>,
    /// Mask depth of interrupts, and [`NONE_PENDING`]. The word is zero if interrupts are not masked and a
    /// line is pending. So the instruction that decrements the depth also tests if there is something to
    /// handle.
    mask: AtomicU32,
    /// Interrupt lines that were raised while masked, one bit each.
    pending: AtomicU32,
    /// The CPU's number.
    number: u32,
    /// Address at which a preempted thread resumes.
    pub(crate) resume: AtomicU64,
}

/// Bit of [`LocalHeader::mask`] that is set while no line is pending. It may be clear although no line is
/// pending, until [`LocalHeader::settle`] is called. It is never set while a line is pending, except inside
/// of the functions below that change both.
const NONE_PENDING: u32 = 1 << 31;

/// Offset of [`LocalHeader::mask`], for assembly.
pub(super) const MASK: usize = offset_of!(LocalHeader, mask);
const NUMBER: usize = offset_of!(LocalHeader, number);
/// Offset of [`LocalHeader::resume`], for assembly.
pub(super) const RESUME: usize = offset_of!(LocalHeader, resume);

impl LocalHeader {
    /// Creates the header for the CPU of this number. [`Self::init`] initialises it.
    pub(crate) const fn new(number: u32) -> Self {
        Self {
            this: AtomicPtr::new(ptr::null_mut()),
            mask: AtomicU32::new(0),
            pending: AtomicU32::new(0),
            number,
            resume: AtomicU64::new(0),
        }
    }

    /// Initialises the header of the block `this`. Interrupts are masked once, until the CPU is ready for
    /// them.
    fn init(&self, this: *mut ()) {
        self.this.store(this, Relaxed);
        self.mask.store(1 | NONE_PENDING, Relaxed);
    }

    /// Mask depth: number of calls of [`Self::mask`] without a matching [`Self::unmask`].
    pub(crate) fn mask_depth(&self) -> u32 {
        depth(self.mask.load(Relaxed))
    }

    /// Masks interrupts once more.
    pub(crate) fn mask(&self) {
        self.mask.fetch_add(1, Relaxed);
    }

    /// Undoes one [`Self::mask`]. The caller handles pending lines.
    pub(crate) fn unmask(&self) {
        debug_assert!(self.mask_depth() != 0, "interrupts are not masked");
        self.mask.fetch_sub(1, Relaxed);
    }

    /// The pending lines, one bit each.
    pub(crate) fn pending(&self) -> u32 {
        self.pending.load(Relaxed)
    }

    /// Makes lines pending, one bit each.
    pub(crate) fn set_pending(&self, lines: u32) {
        if lines == 0 {
            return;
        }
        self.pending.fetch_or(lines, Relaxed);
        // If interrupts are not masked, an interrupt between the two operations may have handled the lines
        // already. Then this clears the bit although no line is pending, which is allowed.
        self.mask.fetch_and(!NONE_PENDING, Relaxed);
    }

    /// Removes and returns the pending lines except those in `kept`.
    pub(crate) fn take_pending(&self, kept: u32) -> u32 {
        let lines = self.pending.fetch_and(kept, Relaxed) & !kept;
        self.settle();
        lines
    }

    /// Sets [`NONE_PENDING`] in [`Self::mask`] if no line is pending. The result is exact while interrupts
    /// are masked: an interrupt then adds lines, but removes none.
    pub(crate) fn settle(&self) {
        if self.pending() == 0 {
            self.mask.fetch_or(NONE_PENDING, Relaxed);
            // An interrupt may have raised another line before the bit was set.
            if self.pending() != 0 {
                self.mask.fetch_and(!NONE_PENDING, Relaxed);
            }
        }
    }
}

/// The mask depth in a [`LocalHeader::mask`].
const fn depth(mask: u32) -> u32 {
    mask & !NONE_PENDING
}

/// A CPU-local block that a CPU can install.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Base {
    header: &'static LocalHeader,
    address: u64,
}

impl Base {
    /// Initialises the header at the start of a block. Returns the block's base.
    ///
    /// # Panics
    ///
    /// If the header is not at the start of the block.
    pub(crate) fn new<T: Sync>(block: &'static T, header: fn(&'static T) -> &'static LocalHeader) -> Self {
        let header = header(block);
        let this = ptr::from_ref(block).cast_mut().cast::<()>();
        assert!(ptr::addr_eq(header, this), "a CPU-local block starts with its header");
        header.init(this);
        Self { header, address: this.addr() as u64 }
    }

    /// The number of the CPU to which the block belongs.
    pub(crate) const fn number(self) -> u32 {
        self.header.number
    }

    /// Makes this the block of the calling CPU by writing `IA32_GS_BASE`, a privileged instruction.
    pub(super) fn install(self) {
        GsBase::write(VirtAddr::new(self.address));
    }

    /// Does the same as [`Self::install`] with the unprivileged instruction WRGSBASE.
    ///
    /// # Safety
    ///
    /// The operating system must have enabled FSGSBASE.
    pub(crate) unsafe fn install_unprivileged(self) {
        // SAFETY: the instruction exists (contract). No code has used the GS base of this thread before:
        // Linux starts threads of the process with base 0, and this is the first thing that each does.
        unsafe { asm!("wrgsbase {}", in(reg) self.address, options(nostack, preserves_flags)) };
    }
}

/// The CPU-local block of the calling CPU: the address that was given to [`Base::new`]. Interrupts are masked
/// while it is used, so that the thread does not move to another CPU.
#[inline]
pub(crate) fn block() -> *const () {
    let this: *const ();
    // SAFETY: every CPU installs a `Base` before any other code runs on it, and nothing changes the GS base
    // afterwards. So the load reads `LocalHeader::this`, the first field of the block.
    unsafe { asm!("mov {}, gs:[0]", out(reg) this, options(nostack, readonly, preserves_flags)) };
    this
}

/// Loads the word of 64 bits at an offset of the calling CPU's block.
///
/// # Safety
///
/// The block has an atomic word at this offset.
#[inline]
pub(crate) unsafe fn load<const OFFSET: usize>() -> *mut () {
    let word: *mut ();
    // SAFETY: the GS base is that of the block (see `block`), which has a word at the offset (contract).
    unsafe {
        asm!("mov {}, gs:[{offset}]", out(reg) word, offset = const OFFSET, options(nostack, readonly, preserves_flags));
    };
    word
}

/// Returns true if the word of 64 bits at an offset of the calling CPU's block equals `value`.
///
/// # Safety
///
/// The contract of [`load`].
#[inline]
pub(crate) unsafe fn is<const OFFSET: usize>(value: *mut ()) -> bool {
    // SAFETY: the GS base is that of the block (see `block`), which has a word at the offset (contract).
    unsafe {
        asm!(
            "cmp gs:[{offset}], {value}",
            "jne {differs}",
            value = in(reg) value,
            offset = const OFFSET,
            differs = label { return false },
            options(nostack, readonly),
        );
    }
    true
}

/// Stores a word of 64 bits at an offset of the calling CPU's block.
///
/// # Safety
///
/// The contract of [`load`]. The word may have this value.
#[inline]
pub(crate) unsafe fn store<const OFFSET: usize>(word: *mut ()) {
    // SAFETY: the GS base is that of the block (see `block`), which has a word at the offset (contract). Only
    // the CPU itself uses the block, so this store is as good as an atomic one.
    unsafe {
        asm!("mov gs:[{offset}], {}", in(reg) word, offset = const OFFSET, options(nostack, preserves_flags));
    };
}

/// The number of the calling CPU.
#[inline]
pub(crate) fn number() -> u32 {
    let number: u32;
    // SAFETY: the GS base is that of a block with a `LocalHeader` at its start (see `block`). This reads one
    // field of the header.
    unsafe {
        asm!("mov {:e}, gs:[{offset}]", out(reg) number, offset = const NUMBER, options(nostack, readonly, preserves_flags));
    }
    number
}

/// Mask depth of the calling CPU.
#[inline]
pub(crate) fn mask_depth() -> u32 {
    let mask: u32;
    // SAFETY: the GS base is that of a block with a `LocalHeader` at its start (see `block`). This reads one
    // field of the header.
    unsafe {
        asm!("mov {:e}, gs:[{offset}]", out(reg) mask, offset = const MASK, options(nostack, readonly, preserves_flags));
    }
    depth(mask)
}

/// Returns true if interrupts are masked exactly once on the calling CPU.
#[inline]
pub(crate) fn is_masked_once() -> bool {
    // SAFETY: the GS base is that of a block with a `LocalHeader` at its start (see `block`). This reads one
    // field of the header.
    unsafe {
        asm!(
            "cmp dword ptr gs:[{mask}], {once}",
            "jne {unusual}",
            mask = const MASK,
            once = const (1 | NONE_PENDING).cast_signed(),
            unusual = label { return mask_depth() == 1 },
            options(nostack, readonly),
        );
    }
    true
}

/// Increments the mask depth of the calling CPU. [`unmask`](super::preempt::unmask) decrements it.
#[inline]
pub(crate) fn mask() {
    // SAFETY: the GS base is that of a block with a `LocalHeader` at its start (see `block`), whose mask is
    // an atomic that only this CPU uses. It is one instruction, so an interrupt cannot move the thread to
    // another CPU halfway.
    unsafe { asm!("inc dword ptr gs:[{mask}]", mask = const MASK, options(nostack)) };
}

#[cfg(test)]
mod tests {
    use super::{LocalHeader, NONE_PENDING};
    use core::ptr;
    use core::sync::atomic::Ordering::Relaxed;

    fn header() -> LocalHeader {
        let header = LocalHeader::new(0);
        header.init(ptr::null_mut());
        header
    }

    fn mask(header: &LocalHeader) -> u32 {
        header.mask.load(Relaxed)
    }

    #[test]
    fn mask_is_zero_only_if_unmasked_with_pending_lines() {
        let header = header();
        assert_eq!(mask(&header), 1 | NONE_PENDING);
        header.set_pending(0b110);
        assert_eq!((mask(&header), header.pending()), (1, 0b110));
        header.unmask();
        assert_eq!(mask(&header), 0);
        header.mask();
        assert_eq!(header.take_pending(0b100), 0b010);
        assert_eq!((mask(&header), header.pending()), (1, 0b100));
        assert_eq!(header.take_pending(0), 0b100);
        assert_eq!((mask(&header), header.mask_depth()), (1 | NONE_PENDING, 1));
    }

    /// A call without lines happens if the lines of a signal were taken before the signal arrived.
    #[test]
    fn set_pending_of_no_line_leaves_the_mask() {
        let header = header();
        header.set_pending(0);
        assert_eq!((mask(&header), header.pending()), (1 | NONE_PENDING, 0));
    }

    #[test]
    fn settle_after_an_interrupt_within_set_pending_finds_no_line_pending() {
        let header = header();
        header.pending.fetch_or(1, Relaxed);
        assert_eq!(header.take_pending(0), 1);
        header.mask.fetch_and(!NONE_PENDING, Relaxed);
        header.settle();
        assert_eq!(mask(&header), 1 | NONE_PENDING);
    }
}
