//! Converts the time since the Unix epoch to date and time of day.

use std::fmt;
use std::time::Duration;

const SECONDS_PER_DAY: u64 = 24 * 60 * 60;

/// Days in 400 years, after which the calendar repeats.
const DAYS_PER_ERA: u64 = 400 * 365 + 97;

/// Days from 1 March of the year 0 to 1 January 1970.
const EPOCH_DAYS: u64 = 719_468;

/// Date and time of day in UTC, formatted according to ISO 8601.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct DateTime {
    year: u64,
    month: u64,
    day: u64,
    second_of_day: u64,
}

impl DateTime {
    /// Returns the date and time `since_epoch` after the Unix epoch.
    pub(crate) fn from_unix(since_epoch: Duration) -> Self {
        let seconds = since_epoch.as_secs();
        let (year, month, day) = date(seconds / SECONDS_PER_DAY);
        Self { year, month, day, second_of_day: seconds % SECONDS_PER_DAY }
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { year, month, day, second_of_day } = self;
        let (hour, minute, second) = (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Returns year, month and day of the day `days` after 1 January 1970.
///
/// The calculation counts years from 1 March. So the leap day is the last day of a year, and the lengths of
/// the months repeat every five months, or 153 days.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH_DAYS;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    // There is a leap day every 4 years (1 461 days), but not every 100 years (36 524 days), except on the
    // last day of the era.
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / (DAYS_PER_ERA - 1);
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let months_since_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * months_since_march + 2) / 5 + 1;
    let month = (months_since_march + 2) % 12 + 1;
    let year = 400 * era + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{DateTime, date};

    fn format_time(seconds: u64) -> String {
        DateTime::from_unix(Duration::from_secs(seconds)).to_string()
    }

    #[test]
    fn known_times_are_formatted() {
        assert_eq!(format_time(0), "1970-01-01T00:00:00Z");
        assert_eq!(format_time(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(format_time(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(format_time(1_234_567_890), "2009-02-13T23:31:30Z");
        assert_eq!(format_time(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    /// In 800 years, each date follows the date of the day before.
    #[test]
    fn dates_are_consecutive() {
        let is_leap =
            |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for days in 0..800 * 365 {
            assert_eq!(date(days), (year, month, day));
            let length = match month {
                2 => 28 + u64::from(is_leap(year)),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }
}
