//! Queues, work stealing, epochs and scoped threads.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::atomic::AtomicCell;
use crossbeam::deque::{Steal, Worker};
use crossbeam::epoch::{self, Atomic, Owned};
use crossbeam::queue::{ArrayQueue, SegQueue};
use crossbeam::sync::WaitGroup;

pub fn run() -> crate_uses::Result {
    let (queue, bounded) = (SegQueue::new(), ArrayQueue::new(16));
    let sum = AtomicU64::new(0);
    crossbeam::scope(|scope| {
        for index in 0..3_u64 {
            let (queue, bounded, sum) = (&queue, &bounded, &sum);
            scope.spawn(move |_| {
                for step in 0..1000 {
                    queue.push(index * step);
                    while bounded.push(step).is_err() {
                        sum.fetch_add(bounded.pop().unwrap_or(0), Ordering::Relaxed);
                    }
                }
            });
        }
    })
    .map_err(|_| "panic")?;
    let left: u64 = std::iter::from_fn(|| bounded.pop()).sum();
    println!("{} {}", std::iter::from_fn(|| queue.pop()).sum::<u64>(), sum.into_inner() + left);
    let worker = Worker::new_lifo();
    (0..100).for_each(|number| worker.push(number));
    let stealer = worker.stealer();
    let stolen = std::thread::spawn(move || (0..50).filter(|_| matches!(stealer.steal(), Steal::Success(_))).count());
    println!("{:?} {}", stolen.join().map_err(|_| "panic")?, std::iter::from_fn(|| worker.pop()).count());
    let group = WaitGroup::new();
    let cell = AtomicCell::new((0_u32, 0_u32));
    let shared = Atomic::new(0_u64);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let (group, cell, shared) = (group.clone(), &cell, &shared);
            scope.spawn(move || {
                for _ in 0..200 {
                    let _ = cell.fetch_update(|(one, other)| Some((one + 1, other + 2)));
                    let guard = epoch::pin();
                    shared.swap(Owned::new(7), Ordering::AcqRel, &guard);
                }
                drop(group);
            });
        }
        group.wait();
    });
    println!("{:?}", cell.load());
    Ok(())
}
