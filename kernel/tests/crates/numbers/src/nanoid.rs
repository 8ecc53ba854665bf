//! Random identifiers.

use std::collections::BTreeSet;

pub fn run() -> crate_uses::Result {
    let identifiers: BTreeSet<String> = (0..500).map(|_| nanoid::nanoid!()).collect();
    println!("{} {}", identifiers.len(), identifiers.iter().all(|text| text.len() == 21));
    let digits: Vec<char> = ('0'..='9').collect();
    let number = nanoid::nanoid!(50, &digits);
    println!("{}", number.len() == 50 && number.chars().all(|digit| digit.is_ascii_digit()));
    let fixed = |size: usize| (0..size).map(|index| (index * 37) as u8).collect::<Vec<u8>>();
    println!("{}", nanoid::format(fixed, &nanoid::alphabet::SAFE, 12));
    Ok(())
}
