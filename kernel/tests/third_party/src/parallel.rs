//! rayon: a work-stealing thread pool.

use rayon::ThreadPoolBuilder;
use rayon::prelude::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator, ParallelSliceMut};

use crate::{TestResult, digest, ensure, numbers};

const COUNT: usize = 200_000;

/// Does the same work in rayon's default pool, with a thread per CPU, and in a pool of four threads.
pub(crate) fn rayon() -> TestResult {
    let default = work();
    let pool = ThreadPoolBuilder::new().num_threads(4).build().map_err(|error| error.to_string())?;
    let four = pool.install(work);
    ensure(default == four, || format!("{default} with the default pool, {four} with four threads"))?;
    Ok(default)
}

/// Parallel iterators, sorting, and divide and conquer.
fn work() -> String {
    let mut values: Vec<u32> = numbers(1).take(COUNT).collect();
    let sum: u64 = values.par_iter().map(|&value| u64::from(value)).sum();
    values.par_sort_unstable();
    let squares: Vec<u64> = (0..10_000_u64).into_par_iter().map(|number| number * number).collect();
    digest(&(sum, values, squares, fibonacci(18)))
}

/// Computes a Fibonacci number, with a task for each addition.
fn fibonacci(index: u32) -> u64 {
    if index < 2 {
        return u64::from(index);
    }
    let (one, other) = rayon::join(|| fibonacci(index - 1), || fibonacci(index - 2));
    one + other
}
