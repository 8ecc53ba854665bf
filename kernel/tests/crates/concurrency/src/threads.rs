//! Work on several threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use crossbeam::atomic::AtomicCell;
use crossbeam::deque::{Steal, Worker};
use crossbeam::epoch;
use crossbeam::epoch::{Atomic, Owned};
use crossbeam::queue::{ArrayQueue, SegQueue};
use crossbeam::sync::WaitGroup;
use rayon::ThreadPoolBuilder;
use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelBridge, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use threadpool::Builder;

/// Queues, work stealing, epochs and scoped threads.
pub fn crossbeam() -> crate_uses::Result {
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
    let stolen =
        std::thread::spawn(move || (0..50).filter(|_| matches!(stealer.steal(), Steal::Success(_))).count());
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

/// Counts CPUs: a thread for each one computes a part.
pub fn num_cpus() -> crate_uses::Result {
    let (logical, physical) = (num_cpus::get(), num_cpus::get_physical());
    crate_uses::ensure(logical >= 1 && (1..=logical).contains(&physical), "no CPUs")?;
    let available = thread::available_parallelism()?.get();
    crate_uses::ensure(logical == available, &format!("{logical} CPUs, std says {available}"))?;
    let numbers: Vec<u64> = (0..10_000).collect();
    let sum: u64 = thread::scope(|scope| {
        let parts = numbers.chunks(numbers.len().div_ceil(logical));
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || part.iter().sum::<u64>())).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).sum()
    });
    println!("{sum}");
    Ok(())
}

fn fibonacci(number: u64) -> u64 {
    if number < 10 {
        return (0..number).fold((0, 1), |(one, other), _| (other, one + other)).0;
    }
    let (one, other) = rayon::join(|| fibonacci(number - 1), || fibonacci(number - 2));
    one + other
}

/// Parallel iterators, sorting and pools.
pub fn rayon() -> crate_uses::Result {
    let mut numbers: Vec<u32> = crate_uses::numbers(1).take(50_000).collect();
    numbers.par_sort_unstable();
    println!("{} {}", numbers.is_sorted(), numbers.par_iter().map(|number| u64::from(*number)).sum::<u64>());
    let primes =
        (2..5000_u32).into_par_iter().filter(|number| (2..*number).all(|divisor| number % divisor != 0));
    println!("{}", primes.count());
    let pool =
        ThreadPoolBuilder::new().num_threads(4).thread_name(|index| format!("worker {index}")).build()?;
    println!(
        "{} {:?}",
        pool.install(|| fibonacci(24)),
        pool.install(|| std::thread::current().name().map(|name| name[..6].to_owned()))
    );
    let texts: Result<Vec<u8>, _> = ["1", "2", "x"].into_par_iter().map(str::parse::<u8>).collect();
    println!("{texts:?}");
    let mut found: Vec<_> = (0..100).par_bridge().filter(|number| number % 30 == 0).collect();
    found.sort();
    let mut slots = [0; 8];
    pool.scope(|scope| {
        slots.iter_mut().enumerate().for_each(|(index, slot)| scope.spawn(move |_| *slot = index * 3))
    });
    println!("{found:?} {slots:?}");
    let panicked = catch_unwind(AssertUnwindSafe(|| pool.install(|| panic!("in the pool"))));
    println!("{} {}", panicked.is_err(), pool.install(|| fibonacci(12)));
    Ok(())
}

/// A pool that outlives panics of its jobs.
pub fn threadpool() -> crate_uses::Result {
    let pool = Builder::new().num_threads(3).thread_name("job".to_owned()).build();
    let (sender, receiver) = mpsc::channel();
    for number in 0..50_u64 {
        let sender = sender.clone();
        pool.execute(move || {
            assert!(number % 10 != 3, "job {number}");
            let _ = sender.send((1..=number).fold(1, |product, factor| product * factor % 1_000_007));
        });
    }
    drop(sender);
    pool.join();
    println!("{} panics, {} threads", pool.panic_count(), pool.max_count());
    let results: Vec<u64> = receiver.iter().collect();
    println!(
        "{} results, {}, {}",
        results.len(),
        results.iter().sum::<u64>(),
        pool.active_count() + pool.queued_count()
    );
    Ok(())
}
