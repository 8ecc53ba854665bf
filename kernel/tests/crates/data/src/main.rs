//! Crates with data structures.

mod arrays;
mod bits;
mod graphs;
mod iterators;
mod maps;
mod shared;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[
        ("arc-swap", shared::arc_swap),
        ("arrayvec", arrays::arrayvec),
        ("bitflags", bits::bitflags),
        ("bitvec", bits::bitvec),
        ("bumpalo", graphs::bumpalo),
        ("bytes", arrays::bytes),
        ("either", iterators::either),
        ("fixedbitset", bits::fixedbitset),
        ("hashbrown", maps::hashbrown),
        ("indexmap", maps::indexmap),
        ("itertools", iterators::itertools),
        ("lazy_static", shared::lazy_static),
        ("lru", maps::lru),
        ("once_cell", shared::once_cell),
        ("ordered-float", maps::ordered_float),
        ("petgraph", graphs::petgraph),
        ("priority-queue", graphs::priority_queue),
        ("slab", maps::slab),
        ("slotmap", maps::slotmap),
        ("smallvec", arrays::smallvec),
        ("thread_local", shared::thread_local),
        ("tinyvec", arrays::tinyvec),
    ])
}
