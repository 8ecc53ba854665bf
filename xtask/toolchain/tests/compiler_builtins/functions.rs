//! The functions, as in `compiler_builtins`, and in place of the kernel's answer a choice of each test.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::multiple_unsafe_ops_per_block,
    unreachable_pub,
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    reason = "the functions are parts of `compiler_builtins`, which has no such lints"
)]

/// The kernel's answer, which each test chooses.
pub(crate) mod selection {
    use std::cell::Cell;

    pub(super) const STRING_MOVES_WORDS: u8 = 1;
    pub(super) const STRING_MOVES_BYTES: u8 = 2;
    pub(super) const STRING_MOVES_VECTORS: u8 = 4;

    /// Way in which memory is moved, and in which `f64` are multiplied.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Variant {
        /// Vectors of 16 bytes; separate multiplication.
        Narrow,
        /// Vectors of 32 bytes; fused multiplication.
        Wide,
        /// `rep movsq` and the like, as on an emulated processor.
        Words,
        /// `rep movsb` and the like for very long sizes.
        Bytes,
    }

    thread_local! {
        static ANSWER: Cell<u8> = const { Cell::new(0) };
    }

    /// Selects a variant for this thread. `false`, with a message, if the processor does not have it.
    pub(crate) fn select(variant: Variant) -> bool {
        let is_wide = matches!(variant, Variant::Wide);
        if is_wide && !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
            eprintln!("SKIPPED: this processor has no AVX2 or no FMA");
            return false;
        }
        ANSWER.set(match variant {
            Variant::Narrow => 0,
            Variant::Wide => STRING_MOVES_VECTORS,
            Variant::Words => STRING_MOVES_WORDS,
            Variant::Bytes => STRING_MOVES_BYTES,
        });
        true
    }

    pub(super) fn string_moves() -> u8 {
        ANSWER.get()
    }

    pub(super) fn has_wide_vectors() -> bool {
        string_moves() & STRING_MOVES_VECTORS != 0
    }

    pub(super) fn knows_fast_wide_vectors() -> bool {
        has_wide_vectors()
    }
}

/// Functions for emulated processors.
mod impls {
    pub(super) unsafe fn copy_forward(dest: *mut u8, src: *const u8, count: usize) {
        // SAFETY: the caller guarantees it.
        unsafe { src.copy_to(dest, count) }
    }

    pub(super) unsafe fn set_bytes(dest: *mut u8, c: u8, count: usize) {
        // SAFETY: the caller guarantees it.
        unsafe { dest.write_bytes(c, count) }
    }
}

#[path = "../../patches/std/new/compiler-builtins/compiler-builtins/src/mem/comparisons.rs"]
pub(crate) mod comparisons;
#[path = "../../patches/std/new/compiler-builtins/compiler-builtins/src/mem/moves.rs"]
pub(crate) mod moves;
#[path = "../../patches/std/new/compiler-builtins/compiler-builtins/src/mem/vectors.rs"]
mod vectors;

#[path = "../../patches/std/new/compiler-builtins/libm/src/math/tabled"]
pub(crate) mod tabled {
    use super::selection;

    mod arithmetic;
    pub(crate) mod exponentials;
    pub(crate) mod logarithms;
    pub(crate) mod powers;
    mod tables;
    pub(crate) mod trigonometry;
}
