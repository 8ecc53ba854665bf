//! Cells that are written once, by one of several threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use once_cell::sync::{Lazy, OnceCell};
use once_cell::{race, unsync};

static CALLS: AtomicUsize = AtomicUsize::new(0);
static TABLE: Lazy<Vec<u64>> = Lazy::new(|| {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let mut table = vec![1, 1];
    (2..60).for_each(|index| table.push(table[index - 1] + table[index - 2]));
    table
});

pub fn run() -> crate_uses::Result {
    let cell = OnceCell::new();
    let sums: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|index| {
                let cell = &cell;
                scope.spawn(move || TABLE[50] + TABLE[index] + u64::from(*cell.get_or_init(|| 7_u8)))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(0)).collect()
    });
    println!("{sums:?} {}", CALLS.load(Ordering::Relaxed));
    println!("{:?} {:?} {:?}", cell.set(8), cell.get(), cell.get_or_try_init(|| "x".parse()));
    let local = unsync::Lazy::new(|| "lazy".repeat(2));
    let error = unsync::OnceCell::<u8>::new().get_or_try_init(|| "300".parse()).unwrap_err().to_string();
    println!("{} {error} {:?}", *local, race::OnceBox::<u8>::new().get());
    Ok(())
}
