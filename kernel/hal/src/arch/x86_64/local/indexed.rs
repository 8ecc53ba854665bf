//! Words of the CPU-local block at a computed offset, for example the elements of an array.

use core::arch::asm;

/// [`load`](super::load) at a constant offset plus `index`.
///
/// # Safety
///
/// The block has an atomic word at this offset.
#[inline]
pub(crate) unsafe fn load_at<const BASE: usize>(index: usize) -> *mut () {
    let word: *mut ();
    // SAFETY: the GS base is that of the block (see `super::block`), which has a word at the offset
    // (contract).
    unsafe {
        asm!(
            "mov {word}, gs:[{index} + {base}]",
            word = lateout(reg) word,
            index = in(reg) index,
            base = const BASE,
            options(nostack, readonly, preserves_flags),
        );
    }
    word
}

/// [`store`](super::store) at a constant offset plus `index`.
///
/// # Safety
///
/// The contract of [`load_at`]. The word may have this value.
#[inline]
pub(crate) unsafe fn store_at<const BASE: usize>(index: usize, word: *mut ()) {
    // SAFETY: the GS base is that of the block (see `super::block`), which has a word at the offset
    // (contract). Only the CPU itself uses the block, so this store is as good as an atomic one.
    unsafe {
        asm!(
            "mov gs:[{index} + {base}], {word}",
            word = in(reg) word,
            index = in(reg) index,
            base = const BASE,
            options(nostack, preserves_flags),
        );
    }
}

/// Increments the word of 32 bits at a constant offset plus `index` in the calling CPU's block.
///
/// # Safety
///
/// The block has an atomic word at this offset, for which the new value is valid.
#[inline]
pub(crate) unsafe fn increment_at<const BASE: usize>(index: usize) {
    // SAFETY: the GS base is that of the block (see `super::block`), which has a word at the offset
    // (contract). Only the CPU itself uses the block, so one instruction is as good as an atomic one.
    unsafe {
        asm!("inc dword ptr gs:[{index} + {base}]", index = in(reg) index, base = const BASE, options(nostack));
    };
}

/// Decrements the word of 32 bits at a constant offset plus `index` in the calling CPU's block. Returns true
/// if the word is zero now.
///
/// # Safety
///
/// The contract of [`increment_at`].
#[inline]
pub(crate) unsafe fn decrement_at<const BASE: usize>(index: usize) -> bool {
    // SAFETY: the GS base is that of the block (see `super::block`), which has a word at the offset
    // (contract). Only the CPU itself uses the block, so one instruction is as good as an atomic one.
    unsafe {
        asm!(
            "dec dword ptr gs:[{index} + {base}]",
            "jz {zero}",
            index = in(reg) index,
            base = const BASE,
            zero = label { return true },
            options(nostack),
        );
    }
    false
}
