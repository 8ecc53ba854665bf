//! Algorithms on graphs.

use petgraph::algo::{astar, connected_components, dijkstra, is_cyclic_directed, kosaraju_scc, min_spanning_tree, toposort};
use petgraph::data::FromElements;
use petgraph::dot::{Config, Dot};
use petgraph::graph::{DiGraph, NodeIndex, UnGraph};

pub fn run() -> crate_uses::Result {
    let edges: Vec<(u32, u32, u32)> = crate_uses::numbers(4)
        .zip(crate_uses::numbers(8))
        .map(|(one, other)| (one % 60, other % 60, one % 97 + 1))
        .take(150)
        .collect();
    let graph = DiGraph::<(), u32>::from_edges(&edges);
    let distances = dijkstra(&graph, NodeIndex::new(0), None, |edge| *edge.weight());
    println!("{} reached, {} in all", distances.len(), distances.values().map(|distance| u64::from(*distance)).sum::<u64>());
    let path = astar(&graph, NodeIndex::new(0), |node| node.index() == 42, |edge| *edge.weight(), |_| 0);
    println!("{path:?}");
    println!("{} {}", is_cyclic_directed(&graph), kosaraju_scc(&graph).len());
    let undirected = UnGraph::<(), u32>::from_edges(&edges);
    let tree = UnGraph::<_, _>::from_elements(min_spanning_tree(&undirected));
    println!("{} {} {}", connected_components(&undirected), tree.edge_count(), tree.edge_weights().sum::<u32>());
    let tasks = DiGraph::<&str, ()>::from_edges([(0, 1), (0, 2), (1, 3), (2, 3)]);
    println!("{:?}", toposort(&tasks, None).map_err(|cycle| format!("{cycle:?}"))?);
    println!("{:?}", Dot::with_config(&tasks, &[Config::EdgeNoLabel]));
    Ok(())
}
