//! Sets of small numbers.

use fixedbitset::FixedBitSet;

pub fn run() -> crate_uses::Result {
    let (mut even, mut squares) = (FixedBitSet::with_capacity(200), FixedBitSet::with_capacity(200));
    even.extend((0..200).step_by(2));
    squares.extend((0..15).map(|number| number * number));
    println!("{:?}", even.intersection(&squares).collect::<Vec<_>>());
    println!("{} {}", even.union(&squares).count(), even.symmetric_difference(&squares).count());
    let mut both = &even & &squares;
    both.toggle_range(10..20);
    println!("{:?} {} {}", both.ones().collect::<Vec<_>>(), both.is_subset(&even), both.count_ones(..50));
    println!("{:b}", both.difference(&squares).collect::<FixedBitSet>());
    Ok(())
}
