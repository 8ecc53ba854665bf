//! A pool that outlives panics of its jobs.

use std::sync::mpsc;

use threadpool::Builder;

pub fn run() -> crate_uses::Result {
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
    println!("{} results, {}, {}", results.len(), results.iter().sum::<u64>(), pool.active_count() + pool.queued_count());
    Ok(())
}
