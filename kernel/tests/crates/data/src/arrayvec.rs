//! Vectors and strings of a fixed capacity.

use arrayvec::{ArrayString, ArrayVec};

pub fn run() -> crate_uses::Result {
    let mut vector = ArrayVec::<String, 5>::new();
    for number in 0..8 {
        match vector.try_push(format!("element {number}")) {
            Ok(()) => {}
            Err(error) => println!("{error}: {}", error.clone().element()),
        }
    }
    vector.retain(|element| !element.ends_with('2'));
    vector.insert(1, "inserted".to_owned());
    println!("{vector:?} {:?}", vector.swap_remove(0));
    println!("{:?} {}", vector.drain(1..3).collect::<Vec<_>>(), vector.remaining_capacity());
    let mut text = ArrayString::<8>::from("grün")?;
    println!("{:?} {:?}", text.try_push_str("lich").map_err(|error| error.to_string()), text.try_push('!'));
    println!("{text} {:?} {}", text.pop(), text.len());
    println!("{:?}", ArrayVec::from([3, 1, 2]).into_inner().map(|array: [i32; 3]| array[0]));
    Ok(())
}
