//! The patches that make copying and setting memory fast: what the compiler calls for each copy of a size
//! that it does not know.
//!
//! `compiler_builtins` uses string instructions, three for each copy, which take tens of nanoseconds to
//! start.

use super::Patch;

const MEMORY: &str = "compiler-builtins/compiler-builtins/src/mem/mod.rs";

pub(super) const PATCHES: &[Patch] = &[
    // The last call returns the destination, so that it is a jump, and the functions need no frame.
    Patch {
        file: MEMORY,
        old: "        impls::copy_forward(dest, src, n);
        dest
",
        new: "        moves::copy_forward(dest, src, n)
",
    },
    // One copy of the code: `memcpy` reads forwards, whatever overlaps.
    Patch {
        file: MEMORY,
        old: "            impls::copy_forward(dest, src, n);
        } else {
            impls::copy_backward(dest, src, n);
        }
        dest
",
        new: "            memcpy(dest, src, n)
        } else {
            moves::copy_backward(dest, src, n)
        }
",
    },
    Patch {
        file: MEMORY,
        old: "        impls::set_bytes(s, c as u8, n);
        s
",
        new: "        moves::set_bytes(s, c as u8, n)
",
    },
    Patch { file: MEMORY, old: "impls::compare_bytes(", new: "comparisons::compare_bytes(" },
    // Last, since it has texts that the others replace.
    Patch {
        file: MEMORY,
        old: "mod impls;
",
        new: concat!(
            "mod impls;

#[cfg(not(all(target_os = \"hermit\", target_feature = \"sse2\")))]
mod moves {
    use super::impls;

    #[inline(always)]
    pub unsafe fn copy_forward(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 {
        impls::copy_forward(dest, src, count);
        dest
    }

    #[inline(always)]
    pub unsafe fn copy_backward(dest: *mut u8, src: *const u8, count: usize) -> *mut u8 {
        impls::copy_backward(dest, src, count);
        dest
    }

    #[inline(always)]
    pub unsafe fn set_bytes(dest: *mut u8, c: u8, count: usize) -> *mut u8 {
        impls::set_bytes(dest, c, count);
        dest
    }
}
#[cfg(not(all(target_os = \"hermit\", target_feature = \"sse2\")))]
use impls as comparisons;

#[cfg(all(target_os = \"hermit\", target_feature = \"sse2\"))]
pub(crate) mod selection {
",
            include_str!("memory_functions/selection.rs"),
            "}

#[cfg(all(target_os = \"hermit\", target_feature = \"sse2\"))]
mod vectors {
",
            include_str!("memory_functions/vectors.rs"),
            "}

#[cfg(all(target_os = \"hermit\", target_feature = \"sse2\"))]
mod moves {
",
            include_str!("memory_functions/moves.rs"),
            "}

#[cfg(all(target_os = \"hermit\", target_feature = \"sse2\"))]
mod comparisons {
",
            include_str!("memory_functions/comparisons.rs"),
            "}
"
        ),
    },
];
