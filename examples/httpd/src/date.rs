//! HTTP dates (RFC 9110, section 5.6.7).

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Formats a time given in seconds since 1970, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(crate) fn format(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let name = |names: &[&'static str], index: u64| {
        usize::try_from(index).ok().and_then(|index| names.get(index).copied()).unwrap_or_default()
    };
    let weekday = name(&DAYS, days % 7);
    let (year, month, day) = civil(days);
    let month = name(&MONTHS, month - 1);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Converts days since 1970 to year, month (from 1) and day of the month (from 1).
///
/// In the calculation, years begin in March, so that a leap day is the last day of a year. 400 years are an
/// era, after which the calendar repeats.
fn civil(days: u64) -> (u64, u64, u64) {
    let since_march_of_0 = days + 719_468;
    let (era, day) = (since_march_of_0 / 146_097, since_march_of_0 % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::format;

    #[test]
    fn known_dates_are_formatted() {
        assert_eq!(format(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(format(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(format(951_782_399), "Mon, 28 Feb 2000 23:59:59 GMT");
        assert_eq!(format(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(format(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
    }
}
