//! Allocates in an arena.

use bumpalo::Bump;
use bumpalo::collections::{String, Vec};

struct Node<'a> {
    value: u32,
    children: Vec<'a, &'a Node<'a>>,
}

fn tree(arena: &Bump, depth: u32) -> &Node<'_> {
    let mut children = Vec::new_in(arena);
    if depth > 0 {
        children.extend((0..3).map(|_| tree(arena, depth - 1)));
    }
    arena.alloc(Node { value: depth * 7 + 1, children })
}

fn sum(node: &Node<'_>) -> u32 {
    node.value + node.children.iter().map(|child| sum(child)).sum::<u32>()
}

pub fn run() -> crate_uses::Result {
    let mut arena = Bump::new();
    println!("{}", sum(tree(&arena, 7)));
    crate_uses::ensure(arena.allocated_bytes() > 3000 * 16, "the arena is too small")?;
    {
        let mut text = String::from_str_in("arena ", &arena);
        text.push_str(arena.alloc_str("text"));
        let slice = arena.alloc_slice_fill_with(6, |index| index * index);
        slice.reverse();
        println!("{text} {slice:?} {:?}", bumpalo::format!(in &arena, "{:?}", &slice[..2]));
    }
    arena.reset();
    println!("{}", sum(tree(&arena, 3)));
    Ok(())
}
