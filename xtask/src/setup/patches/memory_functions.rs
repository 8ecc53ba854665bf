//! The patches that make copying and setting memory fast: what the compiler calls for each copy of a size that it does not know.
//!
//! `compiler_builtins` uses string instructions, three for each copy, which take tens of nanoseconds to start.

use super::Patch;

const MEMORY: &str = "compiler-builtins/compiler-builtins/src/mem/mod.rs";

pub(super) const PATCHES: &[Patch] = &[
    Patch {
        file: MEMORY,
        old: "        impls::copy_forward(dest, src, n);
        dest
",
        new: "        moves::copy_forward(dest, src, n);
        dest
",
    },
    // One copy of the code: `memcpy` reads forwards, whatever overlaps.
    Patch {
        file: MEMORY,
        old: "            impls::copy_forward(dest, src, n);
        } else {
            impls::copy_backward(dest, src, n);
",
        new: "            return memcpy(dest, src, n);
        } else {
            moves::copy_backward(dest, src, n);
",
    },
    Patch { file: MEMORY, old: "impls::set_bytes(", new: "moves::set_bytes(" },
    Patch { file: MEMORY, old: "impls::compare_bytes(", new: "moves::compare_bytes(" },
    // Last, since it has texts that the others replace.
    Patch {
        file: MEMORY,
        old: "mod impls;
",
        new: concat!(
            "mod impls;

#[cfg(not(all(target_os = \"hermit\", target_feature = \"sse2\")))]
use impls as moves;

#[cfg(all(target_os = \"hermit\", target_feature = \"sse2\"))]
mod moves {
",
            include_str!("memory_functions/moves.rs"),
            "}
"
        ),
    },
];
