//! Rate limits: the keys `bps=`, `iops=` and `pps=` of `--block`, `--mount` and `--net`.

use std::fmt;
use std::num::NonZeroU64;
use std::str::FromStr;

/// Rate and capacity of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Tokens per second.
    pub per_second: NonZeroU64,
    /// Capacity of the bucket in tokens. By default, the tokens of one second.
    pub burst: NonZeroU64,
}

/// Limits of a device, or of one direction of a device. `None` means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Bytes.
    pub bytes: Option<Rate>,
    /// Operations: requests to a disk, requests to a mounted folder, or frames.
    pub operations: Option<Rate>,
}

impl RateLimits {
    /// Returns true if there is no limit.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// Sets the limit of bytes, the value of `bps=`.
    ///
    /// # Errors
    ///
    /// The value is no rate, or there is one already.
    pub fn set_bytes(&mut self, value: &str) -> Result<(), String> {
        set(&mut self.bytes, value)
    }

    /// Sets the limit of operations, the value of `iops=` or `pps=`.
    ///
    /// # Errors
    ///
    /// The value is no rate, or there is one already.
    pub fn set_operations(&mut self, value: &str) -> Result<(), String> {
        set(&mut self.operations, value)
    }
}

fn set(rate: &mut Option<Rate>, value: &str) -> Result<(), String> {
    match rate.replace(value.parse()?) {
        None => Ok(()),
        Some(_) => Err(format!("the rate `{value}` is one too many: a device has one of each kind")),
    }
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let help = || {
            format!(
                "`{text}` is no rate: write a number per second, such as 500 or 10M, or with a burst, 10M/64M"
            )
        };
        let (per_second, burst) = text.split_once('/').unwrap_or((text, text));
        Ok(Self { per_second: number(per_second).ok_or_else(help)?, burst: number(burst).ok_or_else(help)? })
    }
}

impl fmt::Display for Rate {
    /// Writes the text that [`FromStr`] parses.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.per_second)?;
        if self.burst == self.per_second { Ok(()) } else { write!(out, "/{}", self.burst) }
    }
}

/// Parses a number, perhaps in units of 2^10, 2^20 or 2^30.
fn number(text: &str) -> Option<NonZeroU64> {
    let units = [("K", 10), ("M", 20), ("G", 30)];
    let unit = units.into_iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, shift)));
    let (digits, shift) = unit.unwrap_or((text, 0));
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: u64 = digits.parse().ok().filter(|_| is_number)?;
    NonZeroU64::new(number.checked_mul(1 << shift)?)
}

#[cfg(test)]
mod tests {
    use super::Rate;

    #[test]
    fn rate_has_units_and_a_burst_of_one_second() {
        for (text, per_second, burst) in
            [("500", 500, 500), ("10M", 10 << 20, 10 << 20), ("1K/2G", 1 << 10, 2 << 30), ("9/1", 9, 1)]
        {
            let rate: Rate = text.parse().unwrap();
            assert_eq!((rate.per_second.get(), rate.burst.get()), (per_second, burst));
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
    }

    #[test]
    fn invalid_rates_are_rejected_with_the_syntax() {
        for text in ["", "0", "1/0", "0/1", "x", "+1", "-1", "1.5", "1MB", "M", "1/2/3", "99999999999G"] {
            assert!(text.parse::<Rate>().unwrap_err().contains("10M/64M"), "{text}");
        }
    }
}
