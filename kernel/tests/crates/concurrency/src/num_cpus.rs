//! Counts CPUs: a thread for each one computes a part.

use std::thread;

pub fn run() -> crate_uses::Result {
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
