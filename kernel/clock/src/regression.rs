//! Measurement of a counter's frequency against a reference counter, by linear regression.
//!
//! A single pair of readings has two errors: up to a tick of the reference, and up to the duration of the
//! reading. The least-squares line through a thousand pairs averages both errors out.

/// Maximum number of ticks of either counter since the first reading. With this limit, sums of products fit
/// into 128 bits.
const MAX_TICKS: u64 = 1 << 40;

/// Linear regression over simultaneous readings of a counter and a reference.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeastSquares {
    first: Option<(u64, u64)>,
    count: i128,
    /// Sums over the readings since the first: reference, counter, reference squared, product.
    reference: i128,
    counter: i128,
    squares: i128,
    products: i128,
}

impl LeastSquares {
    /// Adds a pair of readings. Ignores a pair that is more than 2^40 ticks after the first one.
    pub fn add(&mut self, counter: u64, reference: u64) {
        let (first_counter, first_reference) = *self.first.get_or_insert((counter, reference));
        let (x, y) = (reference.wrapping_sub(first_reference), counter.wrapping_sub(first_counter));
        if x > MAX_TICKS || y > MAX_TICKS {
            return;
        }
        let (x, y) = (i128::from(x), i128::from(y));
        self.count += 1;
        self.reference += x;
        self.counter += y;
        self.squares += x * x;
        self.products += x * y;
    }

    /// Frequency of the counter in Hz; `None` with too few readings, or if a counter does not advance.
    #[must_use]
    pub fn frequency(&self, reference_frequency: u64) -> Option<u64> {
        // Division by the count before the multiplication keeps the products in range; the error is less than
        // a tick.
        let count = Some(self.count).filter(|&count| count > 1)?;
        let spread = self.squares - self.reference / count * self.reference;
        let slope = self.products - self.reference / count * self.counter;
        if spread <= 0 || slope <= 0 {
            return None;
        }
        let frequency = slope.checked_mul(i128::from(reference_frequency))? / spread;
        u64::try_from(frequency).ok().filter(|&frequency| frequency != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::LeastSquares;
    use proptest::collection::vec;
    use proptest::prelude::any;
    use proptest::{prop_assert, proptest};

    const REFERENCE: u64 = 1_193_182;

    #[test]
    fn too_few_or_constant_readings_have_no_frequency() {
        let mut regression = LeastSquares::default();
        assert_eq!(regression.frequency(REFERENCE), None);
        regression.add(5, 5);
        assert_eq!(regression.frequency(REFERENCE), None);
        regression.add(5, 6);
        regression.add(5, 7);
        assert_eq!(regression.frequency(REFERENCE), None);
        regression.add(u64::MAX, 8);
        assert_eq!(regression.frequency(REFERENCE), None);
    }

    proptest! {
        /// A thousand readings in 5 ms, each up to a tick early and up to 300 ns late.
        #[test]
        fn noise_averages_out(
            frequency in 100_000_000..6_000_000_000_u64,
            start in any::<u32>(),
            noise in vec(0..300_u64, 1000),
        ) {
            let mut regression = LeastSquares::default();
            for (index, late) in (0_u64..).zip(&noise) {
                // Readings are 5 us apart.
                let nanoseconds = u64::from(start) + index * 5_000;
                let reference = u128::from(nanoseconds) * u128::from(REFERENCE) / 1_000_000_000;
                let counter = u128::from(nanoseconds + late) * u128::from(frequency) / 1_000_000_000;
                regression.add(u64::try_from(counter).unwrap(), u64::try_from(reference).unwrap());
            }
            let measured = regression.frequency(REFERENCE).unwrap();
            prop_assert!(measured.abs_diff(frequency) < frequency / 30_000, "{} for {}", measured, frequency);
        }

        #[test]
        fn frequency_does_not_panic(readings in vec((any::<u64>(), any::<u64>()), 0..50), frequency in any::<u64>()) {
            let mut regression = LeastSquares::default();
            for (counter, reference) in readings {
                regression.add(counter, reference);
            }
            let _ = regression.frequency(frequency);
        }
    }
}
