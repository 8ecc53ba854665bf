//! Vectors, strings and buffers: short, of a fixed capacity, or shared.

use arrayvec::ArrayString;
use bytes::{Buf, BufMut, Bytes, BytesMut};
use smallvec::SmallVec;
use tinyvec::{SliceVec, TinyVec, array_vec, tiny_vec};

/// Vectors and strings of a fixed capacity.
pub fn arrayvec() -> crate_uses::Result {
    use arrayvec::ArrayVec;

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

/// Buffers that share memory.
pub fn bytes() -> crate_uses::Result {
    let mut buffer = BytesMut::with_capacity(8);
    for number in crate_uses::numbers(9).take(300) {
        buffer.put_u16((number >> 20) as u16);
        buffer.put_f64_le(f64::from(number));
        buffer.put_slice(b"text");
    }
    let tail = buffer.split_off(4000);
    let bytes: Bytes = buffer.freeze();
    let parts: Vec<Bytes> = (0..8).map(|index| bytes.slice(index * 500..(index + 1) * 500)).collect();
    let digests = parts.into_iter().map(|part| std::thread::spawn(move || crate_uses::digest(&part)));
    for digest in digests.collect::<Vec<_>>() {
        println!("{}", digest.join().map_err(|_| "panic")?);
    }
    let mut chain = bytes.slice(3990..).chain(tail.freeze());
    let mut sum = 0.0;
    chain.advance(2);
    while chain.remaining() >= 14 {
        sum += f64::from(chain.get_u16()) + f64::from(chain.get_u32());
        chain.advance(8);
    }
    println!("{sum} {} {:?}", chain.remaining(), Bytes::from_static(b"a\0\xff\"").slice_ref(b""));
    println!("{:?}", Bytes::from("reader").reader().into_inner().copy_to_bytes(3));
    Ok(())
}

/// Vectors that are short at first.
pub fn smallvec() -> crate_uses::Result {
    use smallvec::smallvec;

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

/// Vectors of a fixed or growing size, without unsafe code.
pub fn tinyvec() -> crate_uses::Result {
    use tinyvec::ArrayVec;

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
