//! rayon: a pool of threads that steal work from each other.

use rayon::ThreadPoolBuilder;
use rayon::prelude::{IntoParallelIterator, IntoParallelRefIterator, ParallelIterator, ParallelSliceMut};

use crate::{Outcome, digest, ensure, numbers};

const COUNT: usize = 200_000;

/// The same work in the pool that rayon makes by itself, with as many threads as CPUs, and in one of four threads.
pub(crate) fn rayon() -> Outcome {
    let default = work();
    let pool = ThreadPoolBuilder::new().num_threads(4).build().map_err(|error| error.to_string())?;
    let four = pool.install(work);
    ensure(default == four, || format!("{default} with the default pool, {four} with four threads"))?;
    Ok(default)
}

/// Iterators, sorting, and work that divides itself.
fn work() -> String {
    let mut values: Vec<u32> = numbers(1).take(COUNT).collect();
    let sum: u64 = values.par_iter().map(|&value| u64::from(value)).sum();
    values.par_sort_unstable();
    let squares: Vec<u64> = (0..10_000_u64).into_par_iter().map(|number| number * number).collect();
    digest(&(sum, values, squares, fibonacci(18)))
}

/// A number of Fibonacci, computed with a task for each addition.
fn fibonacci(index: u32) -> u64 {
    if index < 2 {
        return u64::from(index);
    }
    let (one, other) = rayon::join(|| fibonacci(index - 1), || fibonacci(index - 2));
    one + other
}
