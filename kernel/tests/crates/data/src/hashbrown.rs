//! Hash tables.

use hashbrown::hash_map::EntryRef;
use hashbrown::{HashMap, HashSet, HashTable};

pub fn run() -> crate_uses::Result {
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
    println!("{:?} {:?}", table.find(hash(&77), |other| *other == 77), table.find(hash(&7777), |other| *other == 7777));
    let (one, other): (HashSet<_>, HashSet<_>) = ((0..50).collect(), (25..75).collect());
    println!("{} {}", one.intersection(&other).count(), (&one | &other).len());
    Ok(())
}
