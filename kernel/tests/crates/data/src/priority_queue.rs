//! Queues whose priorities change.

use std::cmp::Reverse;

use priority_queue::{DoublePriorityQueue, PriorityQueue};

pub fn run() -> crate_uses::Result {
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
    let mut both: DoublePriorityQueue<_, _> = ["a", "bbb", "cc", "dddd"].map(|word| (word, word.len())).into_iter().collect();
    println!("{:?} {:?} {}", both.pop_min(), both.pop_max(), both.len());
    Ok(())
}
