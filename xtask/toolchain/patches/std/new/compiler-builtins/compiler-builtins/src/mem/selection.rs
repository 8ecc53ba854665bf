//! The fastest way to move memory on this processor, and whether it has wide vectors. The kernel knows, and
//! is asked once.

use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::Relaxed;

/// Bits of `string_moves` of `hermit-abi`.
pub(super) const STRING_MOVES_WORDS: u8 = 1;
pub(super) const STRING_MOVES_BYTES: u8 = 2;
pub(super) const STRING_MOVES_VECTORS: u8 = 4;

/// The kernel was asked.
const IS_KNOWN: u8 = 1 << 7;

/// The kernel's answer with [`IS_KNOWN`], or 0. Threads that ask at the same time store the same.
static ANSWER: AtomicU8 = AtomicU8::new(0);

unsafe extern "C" {
    /// `string_moves` of `hermit-abi`.
    safe fn sys_string_moves() -> u32;
}

/// Bits of what moves memory faster than vectors of 16 bytes do.
#[inline(always)]
pub(super) fn string_moves() -> u8 {
    let answer = ANSWER.load(Relaxed);
    if answer == 0 { ask() } else { answer }
}

/// True if programs may use AVX2 and FMA: the processor has them, and the kernel has enabled AVX's registers.
#[inline(always)]
pub(crate) fn has_wide_vectors() -> bool {
    string_moves() & STRING_MOVES_VECTORS != 0
}

/// True if it is known that vectors of 32 bytes are faster than those of 16, and than string instructions for
/// some hundred bytes. This does not ask: a call would have short comparisons save registers. Long copies do,
/// which each program makes.
#[inline(always)]
pub(super) fn knows_fast_wide_vectors() -> bool {
    ANSWER.load(Relaxed) & (STRING_MOVES_VECTORS | STRING_MOVES_WORDS) == STRING_MOVES_VECTORS
}

#[cold]
#[inline(never)]
extern "C" fn ask() -> u8 {
    let answer = sys_string_moves() as u8 | IS_KNOWN;
    ANSWER.store(answer, Relaxed);
    answer
}
