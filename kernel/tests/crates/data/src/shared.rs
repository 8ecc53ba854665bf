//! Values that threads share or make once.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use arc_swap::{ArcSwap, ArcSwapOption, Cache};
use once_cell::sync::{Lazy, OnceCell};
use once_cell::{race, unsync};
use thread_local::ThreadLocal;

/// Replaces a shared value while threads read it.
pub fn arc_swap() -> crate_uses::Result {
    let shared = Arc::new(ArcSwap::from_pointee(vec![0_u64; 16]));
    let read = |shared: Arc<ArcSwap<Vec<u64>>>| {
        let mut cache = Cache::new(shared);
        // All elements of a version are equal, and versions only grow.
        let mut last = 0;
        while last < 1000 {
            let version = cache.load();
            let first = version[0];
            if first < last || version.iter().any(|element| *element != first) {
                return Err(format!("{version:?} after {last}"));
            }
            last = first;
            thread::yield_now();
        }
        Ok(last)
    };
    let readers: Vec<_> =
        (0..3).map(|_| shared.clone()).map(|shared| thread::spawn(move || read(shared))).collect();
    for _ in 0..1000 {
        shared.rcu(|old| old.iter().map(|element| element + 1).collect::<Vec<_>>());
    }
    for reader in readers {
        println!("{:?}", reader.join().map_err(|_| "panic")?);
    }
    let option = ArcSwapOption::from(None);
    option.store(Some(Arc::new(5)));
    println!("{:?} {:?} {}", option.swap(None), option.load_full(), Arc::strong_count(&shared.load_full()));
    Ok(())
}

static MADE: AtomicUsize = AtomicUsize::new(0);

lazy_static::lazy_static! {
    static ref LAZY_STATIC_TABLE: BTreeMap<u32, String> = {
        MADE.fetch_add(1, Ordering::Relaxed);
        thread::yield_now();
        (0..100).map(|number| (number * number, format!("{number}²"))).collect()
    };
    static ref LOG: Mutex<Vec<u32>> = Mutex::new(Vec::new());
}

/// Values that the first access makes, also from several threads.
pub fn lazy_static() -> crate_uses::Result {
    let find = |number: u32| {
        move || {
            LOG.lock()
                .expect("not poisoned")
                .push(LAZY_STATIC_TABLE.range(number..).next().map_or(0, |(key, _)| *key))
        }
    };
    let threads: Vec<_> = (0..8).map(|number| thread::spawn(find(number * 1000))).collect();
    for thread in threads {
        thread.join().map_err(|_| "panic")?;
    }
    LOG.lock().expect("not poisoned").sort();
    println!(
        "{:?} {} {:?}",
        LOG.lock().expect("not poisoned"),
        MADE.load(Ordering::Relaxed),
        LAZY_STATIC_TABLE.get(&81)
    );
    lazy_static::initialize(&LAZY_STATIC_TABLE);
    Ok(())
}

static CALLS: AtomicUsize = AtomicUsize::new(0);
static ONCE_CELL_TABLE: Lazy<Vec<u64>> = Lazy::new(|| {
    CALLS.fetch_add(1, Ordering::Relaxed);
    let mut table = vec![1, 1];
    (2..60).for_each(|index| table.push(table[index - 1] + table[index - 2]));
    table
});

/// Cells that are written once, by one of several threads.
pub fn once_cell() -> crate_uses::Result {
    let cell = OnceCell::new();
    let sums: Vec<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..6)
            .map(|index| {
                let cell = &cell;
                scope.spawn(move || {
                    ONCE_CELL_TABLE[50] + ONCE_CELL_TABLE[index] + u64::from(*cell.get_or_init(|| 7_u8))
                })
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

/// Values of threads in an object.
pub fn thread_local() -> crate_uses::Result {
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
