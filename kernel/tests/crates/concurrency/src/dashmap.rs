//! A map that threads share.

use std::thread;

use dashmap::{DashMap, DashSet, Entry};

pub fn run() -> crate_uses::Result {
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
