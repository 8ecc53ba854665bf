//! A token bucket, which limits the rate of work that any host on the network can cause.

/// Rate per second and burst: Linux's defaults for ICMP (`icmp_msgs_per_sec`, `icmp_msgs_burst`).
const PER_SECOND: u64 = 1000;
const BURST: u64 = 50;

/// Cost of a token in nanoseconds.
const COST: u64 = 1_000_000_000 / PER_SECOND;

/// A token bucket, filled as time passes.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    saved: u64,
    /// Time in nanoseconds of the last update.
    counted: u64,
}

impl TokenBucket {
    pub(crate) const fn new(now: u64) -> Self {
        Self { saved: BURST * COST, counted: now }
    }

    /// Takes a token; `false` if the bucket is empty.
    pub(crate) fn take(&mut self, now: u64) -> bool {
        let passed = now.saturating_sub(self.counted);
        self.saved = self.saved.saturating_add(passed).min(BURST * COST);
        self.counted = now;
        let is_there = self.saved >= COST;
        if is_there {
            self.saved -= COST;
        }
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::{BURST, COST, TokenBucket};

    #[test]
    fn token_bucket_allows_burst_then_rate() {
        let mut allowance = TokenBucket::new(7);
        let mut take = |now| (0..1000).filter(|_| allowance.take(now)).count();
        assert_eq!(take(7), usize::try_from(BURST).unwrap());
        assert_eq!(take(7 + 3 * COST), 3);
        assert_eq!(take(7 + 4 * COST - 1), 0);
        assert_eq!(take(1 << 50), usize::try_from(BURST).unwrap());
    }
}
