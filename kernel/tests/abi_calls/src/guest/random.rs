//! Random numbers, which the crate getrandom reads one by one.

use std::collections::BTreeSet;

use hermit_abi::EFAULT;

use super::calls;

/// Number of random numbers of each size. Among them, every bit is 0 and 1 at least once but with a
/// probability of 2^-56.
const COUNT: usize = 64;

/// Numbers whose 32 bits, or 64, are all random.
pub(crate) fn random() {
    let small = (0..COUNT).map(|_| {
        let mut value = 0;
        assert_eq!(calls::secure_rand32(Some(&mut value)), 0);
        u64::from(value)
    });
    check(&small.collect::<Vec<_>>(), u64::from(u32::MAX));
    let large = (0..COUNT).map(|_| {
        let mut value = 0;
        assert_eq!(calls::secure_rand64(Some(&mut value)), 0);
        value
    });
    check(&large.collect::<Vec<_>>(), u64::MAX);
    assert_eq!((calls::secure_rand32(None), calls::errno()), (-1, EFAULT));
    assert_eq!((calls::secure_rand64(None), calls::errno()), (-1, EFAULT));
}

/// Fails unless each bit of `bits` is 0 in one number and 1 in another one. Two of 64 numbers of 32 bits may
/// be equal.
fn check(numbers: &[u64], bits: u64) {
    assert_eq!(numbers.iter().fold(0, |or, number| or | number), bits, "bits are never 1");
    assert_eq!(numbers.iter().fold(bits, |and, number| and & number), 0, "bits are never 0");
    let different = numbers.iter().collect::<BTreeSet<_>>().len();
    assert!(different >= COUNT - 2, "only {different} of {COUNT} numbers differ");
}
