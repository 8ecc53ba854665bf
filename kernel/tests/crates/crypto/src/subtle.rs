//! Comparison and selection in constant time.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater, CtOption};

fn invert(number: u32) -> CtOption<u32> {
    CtOption::new(1000 / number.max(1), !number.ct_eq(&0))
}

pub fn run() -> crate_uses::Result {
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
