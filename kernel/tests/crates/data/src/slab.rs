//! Storage with reused keys.

use slab::Slab;

pub fn run() -> crate_uses::Result {
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
