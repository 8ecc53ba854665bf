//! Handling of secrets.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater, CtOption};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

fn invert(number: u32) -> CtOption<u32> {
    CtOption::new(1000 / number.max(1), !number.ct_eq(&0))
}

/// Comparison and selection in constant time.
pub fn subtle() -> crate_uses::Result {
    for (one, other) in [(&b"secret"[..], &b"secret"[..]), (b"secret", b"Secret"), (b"a", b"ab")] {
        println!("{}", bool::from(one.ct_eq(other)));
    }
    println!("{:?} {:?}", Option::<u32>::from(invert(8)), Option::<u32>::from(invert(0)));
    println!("{}", invert(0).or_else(|| invert(4)).map(|number| number + 1).unwrap_or(9));
    let (mut one, mut other) = (1_u64, 2_u64);
    u64::conditional_swap(&mut one, &mut other, 5_u8.ct_gt(&3));
    println!("{one} {other} {}", i16::conditional_select(&-7, &7, Choice::from(0)));
    Ok(())
}

#[derive(Debug, Zeroize, ZeroizeOnDrop)]
struct Secret {
    key: [u8; 8],
    words: Vec<String>,
    #[zeroize(skip)]
    label: &'static str,
}

/// Overwrites secrets.
pub fn zeroize() -> crate_uses::Result {
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
