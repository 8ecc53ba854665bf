//! Rounds of a loop, and their time and checksum.

use std::time::{Duration, Instant};

/// A loop that is measured.
#[derive(Debug)]
pub(crate) struct Loop {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Name in the output.
    pub(crate) title: &'static str,
    /// Runs all rounds.
    pub(crate) run: fn(&Rounds) -> Outcome,
    /// Expected checksums of a round, for [`Rounds::FULL`] and for [`Rounds::SMALL`].
    pub(crate) checksums: [u64; 2],
}

impl Loop {
    /// Runs the loop. Returns the time of the shortest round, or a message if a checksum is wrong.
    pub(crate) fn measure(&self, rounds: &Rounds) -> Result<Duration, String> {
        let [full, small] = self.checksums;
        let expected = if *rounds == Rounds::FULL { full } else { small };
        let Outcome { least, checksums } = (self.run)(rounds);
        match checksums.iter().find(|&&checksum| checksum != expected) {
            Some(wrong) => Err(format!("the checksum is {wrong:#x} instead of {expected:#x}")),
            None => Ok(least),
        }
    }
}

/// Number and size of a loop's rounds.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rounds {
    count: u32,
    /// Divisor of the counts and sizes of the work.
    divisor: usize,
}

/// Time and results of the rounds of a loop.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Time of the shortest round.
    least: Duration,
    /// Checksum of each round.
    checksums: Vec<u64>,
}

impl Rounds {
    /// Rounds of a measurement.
    pub(crate) const FULL: Self = Self { count: 3, divisor: 1 };

    /// One round of a 64th of the work.
    pub(crate) const SMALL: Self = Self { count: 1, divisor: 64 };

    /// Converts a count or size of [`Self::FULL`] to that of these rounds.
    pub(crate) const fn scale(&self, count: usize) -> usize {
        count / self.divisor
    }

    /// Runs the rounds. Before each round, `input` makes a new input, which is not measured. `work` is
    /// measured, and returns the checksum.
    pub(crate) fn run<I>(&self, input: impl Fn() -> I, work: impl Fn(I) -> u64) -> Outcome {
        let mut outcome = Outcome { least: Duration::MAX, checksums: Vec::new() };
        for _ in 0..self.count {
            let input = input();
            let start = Instant::now();
            let checksum = work(input);
            outcome.least = outcome.least.min(start.elapsed());
            outcome.checksums.push(checksum);
        }
        outcome
    }
}
