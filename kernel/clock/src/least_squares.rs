//! How fast a counter is, from many readings beside a reference.
//!
//! One reading is as uncertain as a tick of the reference is long, and as the reading itself takes. The line of least
//! squares through a thousand of them is not.

/// Most ticks of either counter that are taken into account: sums of their products fit into 128 bits.
const MAX: u64 = 1 << 40;

/// Readings of a counter and of a reference at the same moments.
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
    /// Takes a reading. One of ticks too many after the first is ignored.
    pub fn add(&mut self, counter: u64, reference: u64) {
        let (first_counter, first_reference) = *self.first.get_or_insert((counter, reference));
        let (x, y) = (reference.wrapping_sub(first_reference), counter.wrapping_sub(first_counter));
        if x > MAX || y > MAX {
            return;
        }
        let (x, y) = (i128::from(x), i128::from(y));
        self.count += 1;
        self.reference += x;
        self.counter += y;
        self.squares += x * x;
        self.products += x * y;
    }

    /// Ticks of the counter per second; `None` if there were too few readings, or if a counter stands still.
    #[must_use]
    pub fn frequency(&self, reference_frequency: u64) -> Option<u64> {
        // Divided by the count before they are multiplied, the sums fit; what is lost is less than a tick.
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
    fn nonsense_is_nothing() {
        let mut fit = LeastSquares::default();
        assert_eq!(fit.frequency(REFERENCE), None);
        fit.add(5, 5);
        assert_eq!(fit.frequency(REFERENCE), None);
        fit.add(5, 6);
        fit.add(5, 7);
        assert_eq!(fit.frequency(REFERENCE), None);
        fit.add(u64::MAX, 8);
        assert_eq!(fit.frequency(REFERENCE), None);
    }

    proptest! {
        /// A thousand readings in 5 ms, each up to a tick too early and read up to 300 ns too late.
        #[test]
        fn noise_averages_out(
            frequency in 100_000_000..6_000_000_000_u64,
            start in any::<u32>(),
            noise in vec(0..300_u64, 1000),
        ) {
            let mut fit = LeastSquares::default();
            for (index, late) in (0_u64..).zip(&noise) {
                // Reading after reading, 5 us apart.
                let nanoseconds = u64::from(start) + index * 5_000;
                let reference = u128::from(nanoseconds) * u128::from(REFERENCE) / 1_000_000_000;
                let counter = u128::from(nanoseconds + late) * u128::from(frequency) / 1_000_000_000;
                fit.add(u64::try_from(counter).unwrap(), u64::try_from(reference).unwrap());
            }
            let measured = fit.frequency(REFERENCE).unwrap();
            prop_assert!(measured.abs_diff(frequency) < frequency / 30_000, "{} for {}", measured, frequency);
        }

        #[test]
        fn it_never_panics(readings in vec((any::<u64>(), any::<u64>()), 0..50), frequency in any::<u64>()) {
            let mut fit = LeastSquares::default();
            for (counter, reference) in readings {
                fit.add(counter, reference);
            }
            let _ = fit.frequency(frequency);
        }
    }
}
