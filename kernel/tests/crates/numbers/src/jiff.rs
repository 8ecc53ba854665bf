//! Dates, spans and time zones.

use jiff::civil::{Date, DateTime, date};
use jiff::tz::{TimeZone, offset};
use jiff::{Span, Timestamp, ToSpan, Unit, Zoned};

pub fn run() -> crate_uses::Result {
    let start = date(2024, 1, 31).at(22, 30, 0, 0);
    println!("{} {} {:?}", start.checked_add(1.month())?, start.date().last_of_month(), start.weekday());
    println!("{} {}", start.until((Unit::Month, date(2026, 3, 1).at(0, 0, 0, 0)))?, start.strftime("%a %d %b %Y %I:%M %p"));
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3")?;
    let zoned = date(2024, 3, 31).at(1, 59, 59, 0).to_zoned(zone)?;
    println!("{} {}", zoned.timestamp(), zoned.checked_add(1.second())?.timestamp());
    println!("{:?} {:?}", zoned.checked_add(1.day())?.datetime(), zoned.with_time_zone(TimeZone::fixed(offset(-5))).datetime());
    println!("{} {}", "P1Y2M3DT4.5S".parse::<Span>()?, 90.minutes().round(Unit::Hour)?);
    println!("{:?}", "2024-02-30".parse::<Date>().map_err(|error| error.to_string()));
    println!("{}", DateTime::strptime("%Y/%m/%d %H:%M", "2024/07/08 09:10")?);
    crate_uses::ensure(Timestamp::now() > Timestamp::constant(1_700_000_000, 0), "the clock is wrong")?;
    crate_uses::ensure(Zoned::now().year() >= 2024, "the clock is wrong")
}
