//! Tests of nested epoll instances: the limit of the depth, cycles, and the number of instances that a check
//! visits.

extern crate std;

use alloc::sync::Arc;
use std::vec::Vec;

use hermit_abi::EPOLLIN;
use hermit_interface::Errno;

use super::super::tests::{Instance, event, instance};
use super::Check;

/// Creates three layers of instances. Each instance watches all instances of the next layer.
fn layers(width: usize) -> [Vec<Arc<Instance>>; 3] {
    let layers = [0, 1, 2].map(|_| (0..width).map(|_| instance()).collect::<Vec<_>>());
    for pair in layers.windows(2) {
        for outer in &pair[0] {
            for (number, inner) in (3..).zip(&pair[1]) {
                outer.add(number, &(Arc::clone(inner) as _), event(EPOLLIN, 0)).unwrap();
            }
        }
    }
    layers
}

#[test]
fn check_visits_each_instance_once() {
    let (layers, outermost) = (layers(5), instance());
    let mut check = Check::new();
    assert_eq!(layers[0][0].depth_without(&outermost, 1, &mut check), Ok(2));
    assert_eq!(check.visited, 1 + 5 + 5);
    // A new check has visited nothing yet. It fails if the instances above make the nesting too deep, or if
    // it finds a cycle.
    let mut check = Check::new();
    assert_eq!(layers[0][0].depth_without(&outermost, 3, &mut check), Err(Errno::ELOOP));
    assert_eq!(layers[0][0].depth_without(&layers[2][4], 1, &mut Check::new()), Err(Errno::ELOOP));
}

/// An instance can be reached along two paths of different lengths. The check visits it only once, but the
/// limit applies to the longer path.
#[test]
fn longer_way_to_a_visited_instance_counts() {
    let [top, short, long, longer, bottom] = [0, 1, 2, 3, 4].map(|_| instance());
    let add = |outer: &Arc<Instance>, number, inner: &Arc<Instance>| {
        outer.add(number, &(Arc::clone(inner) as _), event(EPOLLIN, 0))
    };
    add(&short, 3, &bottom).unwrap();
    add(&longer, 3, &bottom).unwrap();
    add(&long, 3, &longer).unwrap();
    // Along the path through `short`, two instances are above `bottom`; along the path through `long`, three.
    // So only one more level below `bottom` is possible.
    add(&top, 3, &short).unwrap();
    add(&top, 4, &long).unwrap();
    let below = [0, 1].map(|_| instance());
    add(&bottom, 3, &below[0]).unwrap();
    assert_eq!(add(&below[0], 3, &below[1]), Err(Errno::ELOOP));
    // The longer path also counts when an instance is added at the top.
    assert_eq!(add(&instance(), 3, &top), Err(Errno::ELOOP));
}
