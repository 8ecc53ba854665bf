//! Parallel iterators, sorting and pools.

use std::panic::{AssertUnwindSafe, catch_unwind};

use rayon::ThreadPoolBuilder;
use rayon::iter::{IntoParallelIterator, IntoParallelRefIterator, ParallelBridge, ParallelIterator};
use rayon::slice::ParallelSliceMut;

fn fibonacci(number: u64) -> u64 {
    if number < 10 {
        return (0..number).fold((0, 1), |(one, other), _| (other, one + other)).0;
    }
    let (one, other) = rayon::join(|| fibonacci(number - 1), || fibonacci(number - 2));
    one + other
}

pub fn run() -> crate_uses::Result {
    let mut numbers: Vec<u32> = crate_uses::numbers(1).take(50_000).collect();
    numbers.par_sort_unstable();
    println!("{} {}", numbers.is_sorted(), numbers.par_iter().map(|number| u64::from(*number)).sum::<u64>());
    let primes = (2..5000_u32).into_par_iter().filter(|number| (2..*number).all(|divisor| number % divisor != 0));
    println!("{}", primes.count());
    let pool = ThreadPoolBuilder::new().num_threads(4).thread_name(|index| format!("worker {index}")).build()?;
    println!("{} {:?}", pool.install(|| fibonacci(24)), pool.install(|| std::thread::current().name().map(|name| name[..6].to_owned())));
    let texts: Result<Vec<u8>, _> = ["1", "2", "x"].into_par_iter().map(str::parse::<u8>).collect();
    println!("{texts:?}");
    let mut found: Vec<_> = (0..100).par_bridge().filter(|number| number % 30 == 0).collect();
    found.sort();
    let mut slots = [0; 8];
    pool.scope(|scope| slots.iter_mut().enumerate().for_each(|(index, slot)| scope.spawn(move |_| *slot = index * 3)));
    println!("{found:?} {slots:?}");
    let panicked = catch_unwind(AssertUnwindSafe(|| pool.install(|| panic!("in the pool"))));
    println!("{} {}", panicked.is_err(), pool.install(|| fibonacci(12)));
    Ok(())
}
