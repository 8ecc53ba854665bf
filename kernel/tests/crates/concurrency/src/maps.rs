//! Maps and caches that threads share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use dashmap::{DashMap, DashSet, Entry};
use moka::notification::RemovalCause;
use moka::sync::Cache;

/// A map that threads share.
pub fn dashmap() -> crate_uses::Result {
    let (map, set) = (DashMap::<u32, u64>::new(), DashSet::new());
    thread::scope(|scope| {
        for seed in 0..4 {
            let (map, set) = (&map, &set);
            scope.spawn(move || {
                for number in crate_uses::numbers(seed).take(5000) {
                    *map.entry(number % 97).or_default() += u64::from(number % 1000);
                    set.insert(number % 1009);
                }
            });
        }
    });
    let mut sums: Vec<_> = map.iter().map(|entry| (*entry.key(), *entry.value())).collect();
    sums.sort();
    println!("{} {:?} {}", sums.len(), &sums[..3], set.len());
    map.alter_all(|key, value| value + u64::from(*key));
    map.retain(|key, _| key % 2 == 0);
    println!("{} {:?} {:?}", map.len(), map.get(&2).map(|value| *value), map.remove(&4));
    if let Entry::Occupied(mut entry) = map.entry(6) {
        println!("{}", entry.insert(1));
    }
    println!("{:?} {:?}", map.try_get(&6).try_unwrap().map(|value| *value), map.view(&3, |_, value| *value));
    Ok(())
}

/// A cache for threads, with limits and expiry.
pub fn moka() -> crate_uses::Result {
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
    println!(
        "{:?} {:?}",
        cache.try_get_with(7777, || "x".parse::<u8>().map(|_| String::new())),
        cache.get(&7777)
    );
    let short: Cache<&str, u8> = Cache::builder().time_to_live(Duration::from_millis(20)).build();
    short.insert("a", 1);
    thread::sleep(Duration::from_millis(40));
    println!("{:?} {:?}", short.get("a"), cache.remove(&123_456));
    Ok(())
}
