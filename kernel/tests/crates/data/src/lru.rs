//! A cache of limited size.

use std::num::NonZeroUsize;

use lru::LruCache;

pub fn run() -> crate_uses::Result {
    let mut cache = LruCache::new(NonZeroUsize::new(100).ok_or("zero")?);
    let (mut hits, mut misses) = (0, 0);
    for number in crate_uses::numbers(21).take(20_000) {
        let key = (number % 13) * (number % 17);
        if cache.get(&key).is_some() { hits += 1 } else { misses += 1 }
        cache.put(key, key.to_string());
    }
    println!("{hits} hits, {misses} misses, {} entries", cache.len());
    println!("{:?} {:?}", cache.iter().take(3).collect::<Vec<_>>(), cache.peek_lru());
    let evicted = cache.push(1_000_000, "new".to_owned());
    println!("{evicted:?} {:?}", cache.pop_lru());
    cache.resize(NonZeroUsize::MIN);
    println!("{:?} {:?}", cache.contains(&1_000_000), cache.try_get_or_insert(5, || "x".parse::<u8>().map(|_| String::new())));
    Ok(())
}
