//! Copies of memory that a device may write at the same time.

use core::arch::asm;

/// Copies bytes that may change meanwhile. The compiler does not see how the bytes are read, so it cannot
/// assume that two reads give the same value: concurrent writes of a device are no data race for the
/// compiler.
///
/// # Safety
///
/// `size` bytes must be mapped at both addresses. Those at `to` must be either exclusively the caller's or,
/// like the memory that is shared with devices, accessed in no other way than by this function and by
/// atomics.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, size: usize) {
    match size {
        // Sizes of fields and entries of rings: REP MOVSB takes several times as long just to start.
        2 => {
            // SAFETY: two bytes are mapped at both addresses (contract); the instructions touch nothing else.
            unsafe {
                asm!(
                    "mov {word:x}, [{from}]",
                    "mov [{to}], {word:x}",
                    word = out(reg) _,
                    from = in(reg) from,
                    to = in(reg) to,
                    options(nostack, preserves_flags),
                );
            }
        }
        8 => {
            // SAFETY: eight bytes are mapped at both addresses (contract).
            unsafe { copy_word(from, to) };
        }
        16 => {
            // SAFETY: the first eight of sixteen bytes that are mapped at both addresses (contract).
            unsafe { copy_word(from, to) };
            // SAFETY: the last eight of these sixteen bytes.
            unsafe { copy_word(from.wrapping_add(8), to.wrapping_add(8)) };
        }
        _ => {
            // SAFETY: `size` bytes are mapped at both addresses (contract). The System V ABI keeps the
            // direction flag clear, so REP MOVSB counts upwards through exactly these bytes.
            unsafe {
                asm!(
                    "rep movsb",
                    inout("rsi") from => _,
                    inout("rdi") to => _,
                    inout("rcx") size => _,
                    options(nostack, preserves_flags),
                );
            }
        }
    }
}

/// Copies eight bytes, as [`copy`] does.
///
/// # Safety
///
/// The contract of [`copy`] for a size of 8.
#[inline]
unsafe fn copy_word(from: *const u8, to: *mut u8) {
    // SAFETY: eight bytes are mapped at both addresses (contract); the instructions touch nothing else.
    unsafe {
        asm!(
            "mov {word}, [{from}]",
            "mov [{to}], {word}",
            word = out(reg) _,
            from = in(reg) from,
            to = in(reg) to,
            options(nostack, preserves_flags),
        );
    }
}
