//! Times from request to answer.

use std::time::Duration;

/// The times of all requests, in ascending order.
#[derive(Debug)]
pub(crate) struct Times(Vec<Duration>);

impl Times {
    pub(crate) fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// Returns the time that `percent` percent of the times do not exceed. Returns zero if there are no
    /// times.
    fn percentile(&self, percent: usize) -> Duration {
        let index = (self.0.len() * percent).div_ceil(100).saturating_sub(1);
        self.0.get(index).copied().unwrap_or_default()
    }

    /// Returns a line of JSON with percentiles in microseconds.
    pub(crate) fn to_json(&self) -> String {
        let us = |percent| self.percentile(percent).as_secs_f64() * 1e6;
        let [p50, p90, p99, max] = [50, 90, 99, 100].map(us);
        format!(r#"{{"p50_us":{p50:.1},"p90_us":{p90:.1},"p99_us":{p99:.1},"max_us":{max:.1}}}"#)
    }
}

#[cfg(test)]
mod tests {
    use super::Times;
    use std::time::Duration;

    #[test]
    fn percentiles_are_of_sorted_times() {
        let times = Times::new((1..=200).rev().map(Duration::from_micros).collect());
        assert_eq!(times.to_json(), r#"{"p50_us":100.0,"p90_us":180.0,"p99_us":198.0,"max_us":200.0}"#);
    }
}
