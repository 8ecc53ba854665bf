//! Overwrites secrets.

use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

#[derive(Debug, Zeroize, ZeroizeOnDrop)]
struct Secret {
    key: [u8; 8],
    words: Vec<String>,
    #[zeroize(skip)]
    label: &'static str,
}

pub fn run() -> crate_uses::Result {
    let mut secret = Secret { key: [9; 8], words: vec!["a".to_owned()], label: "kept" };
    secret.zeroize();
    println!("{secret:?} {}", secret.label);
    let mut text = "password".to_owned();
    let capacity = text.capacity();
    text.zeroize();
    println!("{text:?} {}", text.capacity() == capacity);
    let wrapped = Zeroizing::new(vec![1_u64, 2, 3]);
    println!("{} {:?}", wrapped.iter().sum::<u64>(), Zeroizing::new([0xff_u8; 3]));
    let mut option = Some(5_u32);
    option.zeroize();
    println!("{option:?}");
    Ok(())
}
