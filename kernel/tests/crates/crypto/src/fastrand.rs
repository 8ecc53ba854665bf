//! A small generator: with a seed always the same numbers.

use std::thread;

use fastrand::Rng;

pub fn run() -> crate_uses::Result {
    let mut random = Rng::with_seed(7);
    println!("{} {} {:.6}", random.u32(..), random.i8(-10..=10), random.f64());
    let mut list: Vec<u8> = (0..20).collect();
    random.shuffle(&mut list);
    println!("{list:?} {:?}", random.choice(&list));
    println!("{}", std::iter::repeat_with(|| random.alphanumeric()).take(30).collect::<String>());
    println!("{:?} {:?}", random.fork().u64(..), random.choose_multiple(0..1000, 4));
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(|| fastrand::u128(..))).collect();
    let mut drawn = threads.into_iter().map(|thread| thread.join()).collect::<Result<Vec<_>, _>>().map_err(|_| "panic")?;
    drawn.sort();
    drawn.dedup();
    println!("{}", drawn.len());
    Ok(())
}
