//! Values of threads in an object.

use std::cell::Cell;
use std::sync::Barrier;
use std::thread;

use thread_local::ThreadLocal;

pub fn run() -> crate_uses::Result {
    let counters: ThreadLocal<Cell<u64>> = ThreadLocal::new();
    // All threads live at the same time, so none takes the slot of another one.
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for index in 0..8 {
            let (counters, barrier) = (&counters, &barrier);
            scope.spawn(move || {
                for step in 0..1000 {
                    let counter = counters.get_or(|| Cell::new(0));
                    counter.set(counter.get() + index * step);
                }
                barrier.wait();
            });
        }
    });
    println!("{:?}", counters.get());
    let mut values: Vec<u64> = counters.into_iter().map(Cell::into_inner).collect();
    values.sort();
    println!("{values:?}");
    Ok(())
}
