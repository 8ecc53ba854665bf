//! Iterators.

use either::{Either, Left, Right, for_both};
use itertools::{EitherOrBoth, Itertools, iproduct, izip};

fn numbers(is_reversed: bool) -> impl Iterator<Item = u32> {
    if is_reversed { Left((1..=5).rev()) } else { Right((1..=5).step_by(2)) }
}

/// Values of two types.
pub fn either() -> crate_uses::Result {
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

/// More iterators.
pub fn itertools() -> crate_uses::Result {
    let numbers: Vec<u32> = crate_uses::numbers(11).map(|number| number % 20).take(12).collect();
    println!("{} | {}", numbers.iter().join(" "), numbers.iter().sorted().dedup().format(","));
    println!("{:?}", numbers.iter().tuple_windows().map(|(one, other)| one.abs_diff(*other)).collect_vec());
    println!("{:?} {:?}", numbers.iter().minmax(), numbers.iter().position_max());
    println!("{:?}", (1..5).combinations(2).collect_vec());
    println!("{:?}", "abc".chars().permutations(3).map(|word| word.iter().collect::<String>()).collect_vec());
    let groups = numbers.iter().into_group_map_by(|number| *number % 3);
    println!("{:?}", groups.into_iter().sorted().collect_vec());
    let chunks = numbers.iter().chunk_by(|number| **number > 9);
    println!("{:?}", chunks.into_iter().map(|(big, chunk)| (big, chunk.count())).collect_vec());
    println!("{:?}", [1, 4, 9].iter().merge(&[2, 3, 10]).collect_vec());
    let longest = [1, 2].iter().zip_longest([3, 4, 5].iter());
    println!("{}", longest.filter(|pair| matches!(pair, EitherOrBoth::Right(_))).count());
    println!("{:?}", iproduct!(0..2, 'x'..'z').collect_vec());
    println!("{:?}", izip!([1, 2], ["a", "b"], [true, false]).collect_vec());
    println!("{:?} {:?}", (0..9).k_smallest(2).collect_vec(), [1, 1].iter().all_equal_value());
    Ok(())
}
