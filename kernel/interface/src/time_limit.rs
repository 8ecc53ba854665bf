//! Time limits and grace periods as people write them.

use alloc::format;
use alloc::string::String;
use core::time::Duration;

/// Time between a request to end and the forced end, as for `docker stop`.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(10);

/// Parses a time limit in seconds, which may have a fraction.
///
/// # Errors
///
/// Returns a message if `text` is not a number of seconds, or if the number is zero, negative or too large.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("{text} seconds is not a time limit"))
}

/// Parses a grace period in seconds, which may have a fraction and may be zero.
///
/// # Errors
///
/// Returns a message if `text` is not a number of seconds, or if the number is negative or too large.
pub fn parse_grace(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| format!("`{text}` is not a number of seconds"))?;
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{text} seconds is not a grace period"))
}

#[cfg(test)]
mod tests {
    use super::{parse_grace, parse_seconds};
    use core::time::Duration;

    #[test]
    fn seconds_may_have_a_fraction() {
        assert_eq!(parse_seconds("90"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
    }

    #[test]
    fn grace_period_may_be_zero_but_not_negative() {
        assert_eq!(parse_grace("0"), Ok(Duration::ZERO));
        assert_eq!(parse_grace("1.5"), Ok(Duration::from_millis(1500)));
        assert!(parse_grace("-1").unwrap_err().contains("not a grace period"));
        assert!(parse_grace("x").unwrap_err().contains("not a number of seconds"));
    }

    #[test]
    fn seconds_that_limit_nothing_are_rejected() {
        for text in ["0", "-1", "inf", "NaN", "1e300"] {
            assert!(parse_seconds(text).unwrap_err().contains("not a time limit"), "{text}");
        }
        assert!(parse_seconds("1s").unwrap_err().contains("not a number of seconds"));
    }
}
