//! Maps, and storage with keys of its own.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use hashbrown::hash_map::EntryRef;
use hashbrown::{HashMap, HashSet, HashTable};
use indexmap::map::Entry;
use indexmap::{IndexMap, IndexSet};
use lru::LruCache;
use ordered_float::{FloatCore, NotNan, OrderedFloat};
use slab::Slab;
use slotmap::{DenseSlotMap, SecondaryMap, SlotMap, new_key_type};

/// Hash tables.
pub fn hashbrown() -> crate_uses::Result {
    let mut words: HashMap<String, u32> = HashMap::new();
    for number in crate_uses::numbers(5).take(20_000) {
        let word = (number % 701).to_string();
        match words.entry_ref(word.as_str()) {
            EntryRef::Occupied(mut entry) => *entry.get_mut() += 1,
            EntryRef::Vacant(entry) => drop(entry.insert(1)),
        }
    }
    let sum: u32 = words.values().sum();
    println!("{} words, {sum} in all, {:?}", words.len(), words.get("17"));
    words.retain(|word, _| word.len() == 3);
    let mut removed: Vec<_> = words.extract_if(|_, count| *count > 36).collect();
    removed.sort();
    println!("{} left, {:?}", words.len(), removed.first());
    let mut table = HashTable::new();
    let hash = |number: &u64| number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    for number in 0..1000 {
        table.insert_unique(hash(&number), number, hash);
    }
    println!(
        "{:?} {:?}",
        table.find(hash(&77), |other| *other == 77),
        table.find(hash(&7777), |other| *other == 7777)
    );
    let (one, other): (HashSet<_>, HashSet<_>) = ((0..50).collect(), (25..75).collect());
    println!("{} {}", one.intersection(&other).count(), (&one | &other).len());
    Ok(())
}

/// Maps that keep the order of insertion.
pub fn indexmap() -> crate_uses::Result {
    use indexmap::indexmap;

    let mut counts: IndexMap<&str, usize> = IndexMap::new();
    for word in "the cat and the dog and the bird".split(' ') {
        *counts.entry(word).or_default() += 1;
    }
    println!("{counts:?} {:?} {:?}", counts.get_index(1), counts.get_index_of("dog"));
    counts.swap_remove("the");
    println!("{:?}", counts.keys().collect::<Vec<_>>());
    counts.sort_by(|one, a, other, b| b.cmp(a).then(one.cmp(other)));
    println!("{counts:?} {:?}", counts.shift_remove("and"));
    if let Entry::Vacant(entry) = counts.entry("last") {
        println!("at {}", entry.index());
        entry.insert(9);
    }
    println!("{:?}", counts.iter().rev().collect::<Vec<_>>());
    let set: IndexSet<u32> = crate_uses::numbers(2).map(|number| number % 50).take(200).collect();
    println!("{} {:?}", set.len(), &set[..10]);
    println!("{:?}", indexmap! { "a" => 1, "b" => 2 }.binary_search_keys(&"b"));
    Ok(())
}

/// A cache of limited size.
pub fn lru() -> crate_uses::Result {
    let mut cache = LruCache::new(NonZeroUsize::new(100).ok_or("zero")?);
    let (mut hits, mut misses) = (0, 0);
    for number in crate_uses::numbers(21).take(20_000) {
        let key = (number % 13) * (number % 17);
        if cache.get(&key).is_some() {
            hits += 1
        } else {
            misses += 1
        }
        cache.put(key, key.to_string());
    }
    println!("{hits} hits, {misses} misses, {} entries", cache.len());
    println!("{:?} {:?}", cache.iter().take(3).collect::<Vec<_>>(), cache.peek_lru());
    let evicted = cache.push(1_000_000, "new".to_owned());
    println!("{evicted:?} {:?}", cache.pop_lru());
    cache.resize(NonZeroUsize::MIN);
    println!(
        "{:?} {:?}",
        cache.contains(&1_000_000),
        cache.try_get_or_insert(5, || "x".parse::<u8>().map(|_| String::new()))
    );
    Ok(())
}

/// Floating-point numbers as keys.
pub fn ordered_float() -> crate_uses::Result {
    let values = [2.5, f64::NAN, -0.0, f64::NEG_INFINITY, 1e-9, 0.0];
    let mut sorted = values.map(OrderedFloat);
    sorted.sort();
    println!("{sorted:?}");
    let counted = values.iter().fold(BTreeMap::new(), |mut counts, value| {
        *counts.entry(OrderedFloat(*value)).or_insert(0) += 1;
        counts
    });
    println!("{counted:?} {:?}", OrderedFloat(f64::NAN) == OrderedFloat(f64::NAN));
    let largest = values.iter().filter_map(|value| NotNan::new(*value).ok()).max();
    println!("{largest:?} {:?} {:?}", NotNan::new(f32::NAN), "1.5".parse::<NotNan<f64>>()? * 2.0);
    println!("{:?}", OrderedFloat(7.75_f64).integer_decode());
    Ok(())
}

/// Storage with reused keys.
pub fn slab() -> crate_uses::Result {
    let mut slab = Slab::new();
    let keys: Vec<usize> = (0..10).map(|number| slab.insert(format!("value {number}"))).collect();
    for key in keys.iter().filter(|key| *key % 3 == 0) {
        print!("{} ", slab.remove(*key));
    }
    println!("{} {:?}", slab.len(), slab.try_remove(0));
    println!("{} {} {}", slab.insert("a".into()), slab.insert("b".into()), slab.vacant_key());
    let entry = slab.vacant_entry();
    let key = entry.key();
    entry.insert(format!("itself {key}"));
    println!("{:?}", slab.iter().collect::<Vec<_>>());
    slab.retain(|key, _| key % 2 == 0);
    slab.compact(|value, from, to| {
        println!("{value} from {from} to {to}");
        true
    });
    println!("{} {:?}", slab.len(), slab.get(2));
    Ok(())
}

new_key_type! {
    struct Entity;
}

/// Maps with keys of generations.
pub fn slotmap() -> crate_uses::Result {
    let mut names: SlotMap<Entity, String> = SlotMap::with_key();
    let mut ages: SecondaryMap<Entity, u32> = SecondaryMap::new();
    let keys: Vec<Entity> = (0..6).map(|number| names.insert(format!("name {number}"))).collect();
    ages.extend(keys.iter().copied().zip(20..));
    println!("{:?}", names.remove(keys[2]));
    let new = names.insert_with_key(|key| format!("{key:?}"));
    println!("{} {:?} {:?}", names[new], names.get(keys[2]), ages.get(new));
    println!("{:?} {}", ages.remove(keys[3]), names.contains_key(keys[3]));
    println!("{:?}", names.iter().map(|(key, name)| (name, ages.get(key))).collect::<Vec<_>>());
    let mut dense = DenseSlotMap::new();
    let inserted: Vec<_> = (0..1000_u32).map(|number| dense.insert(number)).collect();
    let removed = inserted.iter().step_by(3).filter(|key| dense.remove(**key).is_some()).count();
    println!("{removed} {} {}", dense.len(), dense.values().sum::<u32>());
    Ok(())
}
