//! The patches that make copying and setting memory fast: what the compiler calls for each copy of a size that it does not know.
//!
//! `compiler_builtins` uses string instructions, three for each copy, which take tens of nanoseconds to start.

use super::Patch;

const MEMORY: &str = "compiler-builtins/compiler-builtins/src/mem/mod.rs";
const STRINGS: &str = "compiler-builtins/compiler-builtins/src/mem/x86_64.rs";

pub(super) const PATCHES: &[Patch] = &[
    Patch {
        file: STRINGS,
        old: "#[cfg(not(target_feature = \"ermsb\"))]
pub unsafe fn copy_forward(",
        new: "#[cfg(not(any(target_feature = \"ermsb\", all(target_os = \"hermit\", target_feature = \"sse2\"))))]
pub unsafe fn copy_forward(",
    },
    Patch {
        file: STRINGS,
        old: "#[inline(always)]
pub unsafe fn copy_backward(",
        new: "#[inline(always)]
#[cfg(not(all(target_os = \"hermit\", target_feature = \"sse2\")))]
pub unsafe fn copy_backward(",
    },
    Patch {
        file: STRINGS,
        old: "#[cfg(not(target_feature = \"ermsb\"))]
pub unsafe fn set_bytes(",
        new: "#[cfg(not(any(target_feature = \"ermsb\", all(target_os = \"hermit\", target_feature = \"sse2\"))))]
pub unsafe fn set_bytes(",
    },
    Patch {
        file: STRINGS,
        old: "fn rep_param(",
        new: "#[cfg(not(all(target_os = \"hermit\", target_feature = \"sse2\")))]
fn rep_param(",
    },
    // Last, since the text has what the others replace.
    Patch {
        file: STRINGS,
        old: "use core::{intrinsics, mem};
",
        new: concat!(
            "use core::{intrinsics, mem};

#[cfg(all(target_os = \"hermit\", target_feature = \"sse2\"))]
pub use moves::{copy_backward, copy_forward, set_bytes};

#[cfg(all(target_os = \"hermit\", target_feature = \"sse2\"))]
mod moves {
",
            include_str!("memory_functions/moves.rs"),
            "}
"
        ),
    },
    // One copy of the code: `memcpy` reads forwards, whatever overlaps.
    Patch {
        file: MEMORY,
        old: "            // or src is ahead of dest (and delta overflowed).
            impls::copy_forward(dest, src, n);
",
        new: "            // or src is ahead of dest (and delta overflowed).
            #[cfg(all(target_os = \"hermit\", target_feature = \"sse2\"))]
            return memcpy(dest, src, n);
            #[cfg(not(all(target_os = \"hermit\", target_feature = \"sse2\")))]
            impls::copy_forward(dest, src, n);
",
    },
];
