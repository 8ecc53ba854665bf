//! The system's random bytes.

use std::mem::MaybeUninit;

pub fn run() -> crate_uses::Result {
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
