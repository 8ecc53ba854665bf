//! Measures the round-trip time of messages.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::client::sizes;
use crate::protocol::{self, TestRequest};
use crate::report::JsonLine;
use crate::server::buffer;

/// Message sizes in bytes.
const SIZES: [u32; 2] = [1, 16 << 10];

/// Measures each message size.
pub(crate) fn measure(server: &str, settings: &Settings) -> io::Result<()> {
    for message in sizes(settings, &SIZES) {
        let times = round_trips(server, message, settings.rounds)?;
        let line = JsonLine::new("latency")
            .number("message", message)
            .number("rounds", settings.rounds)
            .microseconds("min_us", quantile(&times, 0))
            .microseconds("p50_us", quantile(&times, 500))
            .microseconds("p99_us", quantile(&times, 990))
            .microseconds("max_us", quantile(&times, 1000));
        println!("{}", line.finish());
    }
    Ok(())
}

/// Returns round-trip times in ascending order. Before the measurement, makes `rounds / 10` round trips that
/// are not measured.
fn round_trips(server: &str, message: u32, rounds: u32) -> io::Result<Vec<Duration>> {
    let mut stream = protocol::connect(server)?;
    stream.set_nodelay(true)?;
    stream.write_all(&TestRequest::Echo { message }.encode())?;
    let mut buffer = buffer(message);
    let mut trip = || {
        let start = Instant::now();
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)?;
        Ok::<_, io::Error>(start.elapsed())
    };
    for _ in 0..rounds / 10 {
        trip()?;
    }
    let mut times: Vec<Duration> = (0..rounds).map(|_| trip()).collect::<Result<_, _>>()?;
    times.sort_unstable();
    Ok(times)
}

/// Returns a quantile of sorted times. `thousandths` is the quantile in thousandths.
fn quantile(times: &[Duration], thousandths: usize) -> Duration {
    let index = times.len().saturating_mul(thousandths).div_ceil(1000).saturating_sub(1);
    times.get(index).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::quantile;

    #[test]
    fn quantiles_are_measured_times() {
        let times: Vec<Duration> = (1..=200).map(Duration::from_micros).collect();
        let quantiles = [0, 500, 990, 1000].map(|thousandths| quantile(&times, thousandths).as_micros());
        assert_eq!(quantiles, [1, 100, 198, 200]);
        assert_eq!(quantile(&[], 500), Duration::ZERO);
    }
}
