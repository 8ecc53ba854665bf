//! Graphs, trees and priorities.

use std::cmp::Reverse;

use bumpalo::Bump;
use petgraph::algo::{
    astar, connected_components, dijkstra, is_cyclic_directed, kosaraju_scc, min_spanning_tree, toposort,
};
use petgraph::data::FromElements;
use petgraph::dot::{Config, Dot};
use petgraph::graph::{DiGraph, NodeIndex, UnGraph};
use priority_queue::{DoublePriorityQueue, PriorityQueue};

/// Algorithms on graphs.
pub fn petgraph() -> crate_uses::Result {
    let edges: Vec<(u32, u32, u32)> = crate_uses::numbers(4)
        .zip(crate_uses::numbers(8))
        .map(|(one, other)| (one % 60, other % 60, one % 97 + 1))
        .take(150)
        .collect();
    let graph = DiGraph::<(), u32>::from_edges(&edges);
    let distances = dijkstra(&graph, NodeIndex::new(0), None, |edge| *edge.weight());
    println!(
        "{} reached, {} in all",
        distances.len(),
        distances.values().map(|distance| u64::from(*distance)).sum::<u64>()
    );
    let path = astar(&graph, NodeIndex::new(0), |node| node.index() == 42, |edge| *edge.weight(), |_| 0);
    println!("{path:?}");
    println!("{} {}", is_cyclic_directed(&graph), kosaraju_scc(&graph).len());
    let undirected = UnGraph::<(), u32>::from_edges(&edges);
    let tree = UnGraph::<_, _>::from_elements(min_spanning_tree(&undirected));
    println!(
        "{} {} {}",
        connected_components(&undirected),
        tree.edge_count(),
        tree.edge_weights().sum::<u32>()
    );
    let tasks = DiGraph::<&str, ()>::from_edges([(0, 1), (0, 2), (1, 3), (2, 3)]);
    println!("{:?}", toposort(&tasks, None).map_err(|cycle| format!("{cycle:?}"))?);
    println!("{:?}", Dot::with_config(&tasks, &[Config::EdgeNoLabel]));
    Ok(())
}

/// Queues whose priorities change.
pub fn priority_queue() -> crate_uses::Result {
    let mut queue = PriorityQueue::new();
    for number in crate_uses::numbers(15).take(500) {
        queue.push(number % 300, Reverse(number));
    }
    println!("{} {:?}", queue.len(), queue.peek());
    let changed: Vec<u32> = (0..300).step_by(7).collect();
    for key in changed {
        queue.change_priority_by(&key, |priority| priority.0 /= 3);
    }
    println!("{:?} {:?}", queue.remove(&49), queue.change_priority(&1000, Reverse(1)));
    let order: Vec<u8> = queue.into_sorted_iter().flat_map(|(key, _)| key.to_le_bytes()).collect();
    println!("{}", crate_uses::digest(&order));
    let mut both: DoublePriorityQueue<_, _> =
        ["a", "bbb", "cc", "dddd"].map(|word| (word, word.len())).into_iter().collect();
    println!("{:?} {:?} {}", both.pop_min(), both.pop_max(), both.len());
    Ok(())
}

/// A node of a tree in an arena.
struct Node<'a> {
    value: u32,
    children: bumpalo::collections::Vec<'a, &'a Node<'a>>,
}

fn tree(arena: &Bump, depth: u32) -> &Node<'_> {
    let mut children = bumpalo::collections::Vec::new_in(arena);
    if depth > 0 {
        children.extend((0..3).map(|_| tree(arena, depth - 1)));
    }
    arena.alloc(Node { value: depth * 7 + 1, children })
}

fn sum(node: &Node<'_>) -> u32 {
    node.value + node.children.iter().map(|child| sum(child)).sum::<u32>()
}

/// Allocates in an arena.
pub fn bumpalo() -> crate_uses::Result {
    let mut arena = Bump::new();
    println!("{}", sum(tree(&arena, 7)));
    crate_uses::ensure(arena.allocated_bytes() > 3000 * 16, "the arena is too small")?;
    {
        let mut text = bumpalo::collections::String::from_str_in("arena ", &arena);
        text.push_str(arena.alloc_str("text"));
        let slice = arena.alloc_slice_fill_with(6, |index| index * index);
        slice.reverse();
        println!("{text} {slice:?} {:?}", bumpalo::format!(in &arena, "{:?}", &slice[..2]));
    }
    arena.reset();
    println!("{}", sum(tree(&arena, 3)));
    Ok(())
}
