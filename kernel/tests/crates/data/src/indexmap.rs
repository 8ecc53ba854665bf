//! Maps that keep the order of insertion.

use indexmap::map::Entry;
use indexmap::{IndexMap, IndexSet, indexmap};

pub fn run() -> crate_uses::Result {
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
