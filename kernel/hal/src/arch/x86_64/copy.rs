//! Copies of memory that a device may write at the same time.

use core::arch::asm;

/// Copies bytes that a device may change during the copy. The copy is in assembly, so the compiler cannot
/// assume that two reads give the same value. Hence concurrent writes of a device are not a data race in
/// Rust.
///
/// # Safety
///
/// `size` bytes must be mapped at both addresses. The bytes at `to` must either belong exclusively to the
/// caller, or be memory that is shared with devices, which only this function and atomics access.
#[inline]
pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, size: usize) {
    match size {
        // These are the sizes of fields and entries of virtqueues. For them, the start of REP MOVSB alone
        // would take several times as long.
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
