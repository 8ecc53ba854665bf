//! Values of two types.

use either::{Either, Left, Right, for_both};

fn numbers(is_reversed: bool) -> impl Iterator<Item = u32> {
    if is_reversed { Left((1..=5).rev()) } else { Right((1..=5).step_by(2)) }
}

pub fn run() -> crate_uses::Result {
    println!("{:?} {:?}", numbers(true).collect::<Vec<_>>(), numbers(false).collect::<Vec<_>>());
    let values: [Either<i32, String>; 3] = [Left(4), Right("four".to_owned()), Left(-1)];
    for value in &values {
        println!("{} {:?}", for_both!(value, value => value.to_string()), value.as_ref().left());
        println!("{:?}", value.as_ref().map_left(|number| number * 2).flip());
    }
    println!("{:?}", values[1].as_ref().either(|number| *number as usize, |text| text.len()));
    println!("{:?}", Either::<Option<u8>, Option<&str>>::Right(Some("a")).factor_none());
    Ok(())
}
