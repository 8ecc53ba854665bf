//! A bound for what anybody can have us do.

/// How many in a second, and how many at once: as Linux has it for control messages (`icmp_msgs_per_sec`,
/// `icmp_msgs_burst`).
const PER_SECOND: u64 = 1000;
const BURST: u64 = 50;

/// What one costs of the time that passes, of which no more is saved than for a burst.
const PRICE: u64 = 1_000_000_000 / PER_SECOND;

/// So many may be done by now.
#[derive(Debug)]
pub(crate) struct Allowance {
    saved: u64,
    /// When that was.
    counted: u64,
}

impl Allowance {
    pub(crate) const fn new(now: u64) -> Self {
        Self { saved: BURST * PRICE, counted: now }
    }

    /// Takes one, if there is any.
    pub(crate) fn take(&mut self, now: u64) -> bool {
        let passed = now.saturating_sub(self.counted);
        self.saved = self.saved.saturating_add(passed).min(BURST * PRICE);
        self.counted = now;
        let is_there = self.saved >= PRICE;
        if is_there {
            self.saved -= PRICE;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::{Allowance, BURST, PRICE};

    #[test]
    fn a_burst_is_allowed_and_then_as_many_as_time_passes() {
        let mut allowance = Allowance::new(7);
        let mut take = |now| (0..1000).filter(|_| allowance.take(now)).count();
        assert_eq!(take(7), usize::try_from(BURST).unwrap());
        assert_eq!(take(7 + 3 * PRICE), 3);
        assert_eq!(take(7 + 4 * PRICE - 1), 0);
        assert_eq!(take(1 << 50), usize::try_from(BURST).unwrap());
    }
}
