//! Results as lines of JSON.

use std::fmt::Display;
use std::time::Duration;

/// A line of JSON under construction.
#[derive(Debug)]
pub(crate) struct JsonLine {
    text: String,
}

impl JsonLine {
    /// Begins the result of a test. The name of the test must need no escapes.
    pub(crate) fn new(test: &str) -> Self {
        Self { text: format!("{{\"test\":\"{test}\"") }
    }

    /// Adds a string, which must need no escapes.
    pub(crate) fn word(mut self, name: &str, word: &str) -> Self {
        self.text.push_str(&format!(",\"{name}\":\"{word}\""));
        self
    }

    /// Adds a number, or another value that JSON writes without quotes.
    pub(crate) fn number(mut self, name: &str, number: impl Display) -> Self {
        self.text.push_str(&format!(",\"{name}\":{number}"));
        self
    }

    /// Adds a duration in microseconds.
    pub(crate) fn microseconds(self, name: &str, time: Duration) -> Self {
        let (whole, part) = (time.as_micros(), time.subsec_nanos() % 1000 / 100);
        self.number(name, format_args!("{whole}.{part}"))
    }

    /// Adds a rate: `count` per second, in multiples of `unit`.
    pub(crate) fn rate(self, name: &str, count: u64, time: Duration, unit: f64) -> Self {
        // The conversion is exact, because both parts have fewer bits than the mantissa of an `f64`.
        let count = u32::try_from(count / 1024).map_or(f64::INFINITY, f64::from) * 1024.0
            + f64::from(u16::try_from(count % 1024).unwrap_or_default());
        self.number(name, format_args!("{:.2}", count / time.as_secs_f64() / unit))
    }

    /// Returns the line.
    pub(crate) fn finish(self) -> String {
        self.text + "}"
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::JsonLine;

    #[test]
    fn lines_are_json() {
        let line = JsonLine::new("throughput")
            .word("direction", "to server")
            .number("bytes", 17)
            .microseconds("p50_us", Duration::from_nanos(12_345))
            .rate("megabytes_per_second", 3_000_001, Duration::from_secs(2), 1e6)
            .finish();
        let expected = r#"{"test":"throughput","direction":"to server","bytes":17,"p50_us":12.3,"megabytes_per_second":1.50}"#;
        assert_eq!(line, expected);
    }
}
