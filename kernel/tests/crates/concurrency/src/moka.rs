//! A cache for threads, with limits and expiry.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use moka::notification::RemovalCause;
use moka::sync::Cache;

pub fn run() -> crate_uses::Result {
    let removed = Arc::new(AtomicU32::new(0));
    let counter = removed.clone();
    let cache: Cache<u32, String> = Cache::builder()
        .max_capacity(100)
        .eviction_listener(move |_, _, cause| {
            counter.fetch_add(u32::from(cause == RemovalCause::Size), Ordering::Relaxed);
        })
        .build();
    let loads = Arc::new(AtomicU32::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let (cache, loads) = (cache.clone(), loads.clone());
            thread::spawn(move || {
                for key in 0..50 {
                    let value = cache.get_with(key, || {
                        loads.fetch_add(1, Ordering::Relaxed);
                        key.to_string()
                    });
                    assert_eq!(value, key.to_string());
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().map_err(|_| "panic")?;
    }
    println!("{} loads", loads.load(Ordering::Relaxed));
    (1000..1500).for_each(|key| cache.insert(key, String::new()));
    let known = || cache.entry_count() + u64::from(removed.load(Ordering::Relaxed));
    // A call stops after a while, done or not.
    while known() != 550 || cache.entry_count() > 100 {
        cache.run_pending_tasks();
    }
    println!("{} entries, {} in all", cache.entry_count(), known());
    println!("{:?} {:?}", cache.try_get_with(7777, || "x".parse::<u8>().map(|_| String::new())), cache.get(&7777));
    let short: Cache<&str, u8> = Cache::builder().time_to_live(Duration::from_millis(20)).build();
    short.insert("a", 1);
    thread::sleep(Duration::from_millis(40));
    println!("{:?} {:?}", short.get("a"), cache.remove(&123_456));
    Ok(())
}
