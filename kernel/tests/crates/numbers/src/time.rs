//! Dates, times and formats.

use time::format_description::well_known::{Iso8601, Rfc2822, Rfc3339};
use time::macros::{date, datetime, format_description, offset};
use time::{Date, Duration, Month, OffsetDateTime, PrimitiveDateTime, Weekday};

pub fn run() -> crate_uses::Result {
    let day = date!(2024 - 02 - 28);
    println!("{} {} {:?}", day + Duration::days(2), day.weekday(), day.to_iso_week_date());
    println!("{} {:?}", day.next_occurrence(Weekday::Monday), Date::from_calendar_date(2023, Month::February, 29).map_err(|error| error.to_string()));
    let moment = datetime!(1985-04-12 23:20:50.52 +2);
    println!("{} {} {}", moment.format(&Rfc3339)?, moment.format(&Rfc2822)?, moment.to_offset(offset!(-8)).format(&Iso8601::DEFAULT)?);
    let format = format_description!("[day]/[month repr:short]/[year] [hour repr:12]:[minute] [period]");
    println!("{} {:?}", moment.format(&format)?, PrimitiveDateTime::parse("03/Dec/2021 09:05 PM", &format)?);
    println!("{:?}", OffsetDateTime::parse("2021-12-03T25:00:00Z", &Rfc3339).map_err(|error| error.to_string()));
    println!("{} {}", (moment - OffsetDateTime::UNIX_EPOCH).whole_hours(), Duration::seconds_f64(-93_784.25));
    crate_uses::ensure(OffsetDateTime::now_utc().year() >= 2024, "the clock is wrong")
}
