//! Maps with keys of generations.

use slotmap::{DenseSlotMap, SecondaryMap, SlotMap, new_key_type};

new_key_type! {
    struct Entity;
}

pub fn run() -> crate_uses::Result {
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
