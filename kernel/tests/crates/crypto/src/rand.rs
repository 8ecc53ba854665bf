//! Random numbers and distributions.

use std::thread;

use rand::distr::{Alphanumeric, Bernoulli, Distribution, SampleString, Uniform, weighted::WeightedIndex};
use rand::rngs::{SmallRng, StdRng};
use rand::seq::{IndexedRandom, IteratorRandom, SliceRandom};
use rand::{Rng, RngCore, SeedableRng};

pub fn run() -> crate_uses::Result {
    let mut random = StdRng::seed_from_u64(5);
    println!("{} {} {:.6}", random.next_u64(), random.random_range(-50..50), random.random::<f64>());
    println!("{} {}", random.random_bool(0.3), Alphanumeric.sample_string(&mut random, 20));
    let mut cards: Vec<u32> = (0..20).collect();
    cards.shuffle(&mut random);
    println!("{cards:?} {:?}", cards.choose_multiple(&mut random, 3).collect::<Vec<_>>());
    let dice = Uniform::try_from(1..=6_u64)?;
    println!("{}", dice.sample_iter(&mut random).take(1000).sum::<u64>());
    let weighted = WeightedIndex::new([1, 0, 5])?;
    println!("{:?}", (0..20).map(|_| weighted.sample(&mut random)).collect::<Vec<_>>());
    println!("{}", Bernoulli::new(0.25)?.sample_iter(&mut random).take(1000).filter(|hit| *hit).count());
    println!("{} {:?}", SmallRng::seed_from_u64(3).next_u32(), (0..99).choose(&mut random));
    let drawn = (0..3).map(|_| thread::spawn(|| rand::rng().random::<u64>()).join()).collect::<Result<Vec<_>, _>>();
    let drawn = drawn.map_err(|_| "panic")?;
    crate_uses::ensure(drawn[0] != drawn[1] && drawn[1] != drawn[2], "the same numbers in all threads")?;
    crate_uses::ensure(StdRng::from_os_rng().next_u64() != StdRng::from_os_rng().next_u64(), "the same seeds")
}
