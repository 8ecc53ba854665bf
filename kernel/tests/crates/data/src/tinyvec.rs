//! Vectors of a fixed or growing size, without unsafe code.

use tinyvec::{ArrayVec, SliceVec, TinyVec, array_vec, tiny_vec};

pub fn run() -> crate_uses::Result {
    let mut vector: TinyVec<[u16; 4]> = tiny_vec!(1, 2, 3);
    println!("{} {:?}", vector.is_inline(), vector);
    vector.extend(4..9);
    println!("{} {:?} {:?}", vector.is_heap(), vector.splice(1..3, [20, 30, 40]).collect::<Vec<_>>(), vector);
    let mut array: ArrayVec<[char; 6]> = array_vec!([char; 6] => 'a', 'b', 'c');
    println!("{:?} {:?}", array.try_push('d'), array.split_off(2));
    println!("{:?} {:?}", array.fill("xyzuvw".chars()).collect::<String>(), array);
    let mut memory = [0; 5];
    let mut slice = SliceVec::from_slice_len(&mut memory, 0);
    slice.extend([5, 6, 7]);
    println!("{slice:?} {} {:?}", slice.capacity(), slice.pop());
    Ok(())
}
