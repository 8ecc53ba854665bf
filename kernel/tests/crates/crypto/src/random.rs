//! Random numbers.

use std::mem::MaybeUninit;
use std::thread;

use rand::distr::weighted::WeightedIndex;
use rand::distr::{Alphanumeric, Bernoulli, Distribution, SampleString, Uniform};
use rand::rngs::{SmallRng, StdRng};
use rand::seq::{IndexedRandom, IteratorRandom, SliceRandom};
use rand_chacha::{ChaCha8Rng, ChaCha12Rng, ChaCha20Rng};

/// A small generator: with a seed always the same numbers.
pub fn fastrand() -> crate_uses::Result {
    use fastrand::Rng;

    let mut random = Rng::with_seed(7);
    println!("{} {} {:.6}", random.u32(..), random.i8(-10..=10), random.f64());
    let mut list: Vec<u8> = (0..20).collect();
    random.shuffle(&mut list);
    println!("{list:?} {:?}", random.choice(&list));
    println!("{}", std::iter::repeat_with(|| random.alphanumeric()).take(30).collect::<String>());
    println!("{:?} {:?}", random.fork().u64(..), random.choose_multiple(0..1000, 4));
    let threads: Vec<_> = (0..4).map(|_| thread::spawn(|| fastrand::u128(..))).collect();
    let mut drawn = threads
        .into_iter()
        .map(|thread| thread.join())
        .collect::<Result<Vec<_>, _>>()
        .map_err(|_| "panic")?;
    drawn.sort();
    drawn.dedup();
    println!("{}", drawn.len());
    Ok(())
}

/// The system's random bytes.
pub fn getrandom() -> crate_uses::Result {
    let mut bytes = vec![0; 100_000];
    getrandom::fill(&mut bytes)?;
    let ones: u32 = bytes.iter().map(|byte| byte.count_ones()).sum();
    // 400,000 on average, with a standard deviation of 447.
    println!("{}", (390_000..410_000).contains(&ones));
    let mut counts = [0_u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    println!("{}", counts.iter().all(|count| (190..600).contains(count)));
    let (one, other) = (getrandom::u64()?, getrandom::u64()?);
    println!("{} {:?}", one != other, getrandom::fill(&mut []));
    println!("{:?}", getrandom::fill_uninit(&mut [MaybeUninit::uninit(); 33]).map(|filled| filled.len()));
    Ok(())
}

/// Random numbers and distributions.
pub fn rand() -> crate_uses::Result {
    use rand::{Rng, RngCore, SeedableRng};

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
    let drawn =
        (0..3).map(|_| thread::spawn(|| rand::rng().random::<u64>()).join()).collect::<Result<Vec<_>, _>>();
    let drawn = drawn.map_err(|_| "panic")?;
    crate_uses::ensure(drawn[0] != drawn[1] && drawn[1] != drawn[2], "the same numbers in all threads")?;
    crate_uses::ensure(StdRng::from_os_rng().next_u64() != StdRng::from_os_rng().next_u64(), "the same seeds")
}

/// Reproducible random numbers by ChaCha.
pub fn rand_chacha() -> crate_uses::Result {
    use rand_chacha::rand_core::{RngCore, SeedableRng};

    let mut random = ChaCha20Rng::from_seed([1; 32]);
    println!("{:x} {:x}", random.next_u64(), random.next_u32());
    random.set_word_pos(1 << 40);
    let mut bytes = [0; 1000];
    random.fill_bytes(&mut bytes);
    println!("{} {}", crate_uses::digest(&bytes), random.get_word_pos());
    random.set_stream(9);
    println!("{:x} {}", random.next_u64(), random.get_stream());
    println!("{:x} {:x}", ChaCha8Rng::seed_from_u64(0).next_u64(), ChaCha12Rng::seed_from_u64(0).next_u64());
    crate_uses::ensure(ChaCha8Rng::from_os_rng() != ChaCha8Rng::from_os_rng(), "the same seeds")
}
