//! Vectors that are short at first.

use smallvec::{SmallVec, smallvec};

pub fn run() -> crate_uses::Result {
    let mut vector: SmallVec<[String; 4]> = SmallVec::new();
    for number in 0..10 {
        vector.push(number.to_string());
        if number == 3 || number == 4 {
            println!("{} {}", vector.len(), vector.spilled());
        }
    }
    vector.insert_many(2, ["x", "y"].map(str::to_owned));
    vector.dedup_by_key(|element| element.len());
    println!("{vector:?}");
    let mut numbers: SmallVec<[u32; 8]> = smallvec![3, 1, 2];
    numbers.extend_from_slice(&[9, 8, 7]);
    numbers.sort_unstable();
    println!("{numbers:?} {:?} {:?}", numbers.drain(1..3).collect::<Vec<_>>(), numbers.len());
    numbers.truncate(2);
    numbers.shrink_to_fit();
    println!("{:?} {:?}", numbers.clone().into_vec(), numbers.into_inner().map_err(|kept| kept.len()));
    Ok(())
}
