//! Pseudo-random numbers, the same in each run.

/// A generator (SplitMix64, Steele et al. 2014).
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    /// Returns a generator with a fixed seed.
    pub(crate) const fn new() -> Self {
        Self(0x1234_5678_9abc_def0)
    }

    /// Returns the next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns the next number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        // The conversion does not fail: the high half of the product of two 32-bit numbers has 32 bits.
        u32::try_from(((self.next() >> 32) * u64::from(bound)) >> 32).unwrap_or_default()
    }

    /// Returns the next number in an interval.
    pub(crate) fn between(&mut self, least: f64, most: f64) -> f64 {
        least + (most - least) * f64::from(self.below(u32::MAX)) / f64::from(u32::MAX)
    }

    /// Returns `count` numbers.
    pub(crate) fn numbers(&mut self, count: usize) -> Vec<u64> {
        (0..count).map(|_| self.next()).collect()
    }

    /// Returns `count` words of at least 10 letters, from a vocabulary of `vocabulary` words.
    pub(crate) fn words(&mut self, count: usize, vocabulary: u32) -> Vec<String> {
        let mut word = || {
            let number = u64::from(self.below(vocabulary)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            format!("word-{number}")
        };
        (0..count).map(|_| word()).collect()
    }
}
