//! Replaces a shared value while threads read it.

use std::sync::Arc;
use std::thread;

use arc_swap::{ArcSwap, ArcSwapOption, Cache};

pub fn run() -> crate_uses::Result {
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
    let readers: Vec<_> = (0..3).map(|_| shared.clone()).map(|shared| thread::spawn(move || read(shared))).collect();
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
