//! Dates, times and durations.

use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{Datelike, Days, FixedOffset, Local, Months, NaiveDate, NaiveDateTime, SecondsFormat, Utc};
use humantime::{format_duration, format_rfc3339_millis, parse_duration, parse_rfc3339, parse_rfc3339_weak};
use jiff::{Span, Timestamp, ToSpan, Unit, Zoned};
use time::format_description::well_known::{Iso8601, Rfc2822, Rfc3339};
use time::macros::{datetime, format_description};
use time::{Month, OffsetDateTime, PrimitiveDateTime, Weekday};

/// Dates, times and durations.
pub fn chrono() -> crate_uses::Result {
    use chrono::{DateTime, Duration, TimeZone};

    let date = NaiveDate::from_ymd_opt(2024, 2, 29).ok_or("no date")?;
    println!(
        "{date} {} {:?} {}",
        date.weekday(),
        date.checked_add_months(Months::new(12)),
        date.iso_week().week()
    );
    let zone = FixedOffset::east_opt(2 * 3600).ok_or("no zone")?;
    let time = zone
        .from_local_datetime(&date.and_hms_milli_opt(23, 59, 59, 250).ok_or("no time")?)
        .single()
        .ok_or("ambiguous")?;
    println!("{} {}", time.to_rfc3339(), time.with_timezone(&Utc).format("%A %e %B %Y %H:%M:%S%.3f %j"));
    println!("{:?}", DateTime::parse_from_rfc2822("Tue, 1 Jul 2003 10:52:37 +0200")?.timestamp());
    println!("{:?}", NaiveDateTime::parse_from_str("5.9.2015 7:08", "%d.%m.%Y %H:%M")?);
    println!("{:?}", "2015-02-30".parse::<NaiveDate>().map_err(|error| error.to_string()));
    let later = time + Duration::hours(5) + Days::new(300);
    println!("{} {}", (later - time).num_minutes(), later.to_rfc3339_opts(SecondsFormat::Secs, true));
    let (now, local) = (Utc::now(), Local::now());
    crate_uses::ensure(
        now.year() >= 2024 && (local.with_timezone(&Utc) - now).num_seconds() < 60,
        "the clock is wrong",
    )
}

/// Durations and times as people write them.
pub fn humantime() -> crate_uses::Result {
    use std::time::Duration;

    for text in ["2h 37min", "1year 2months 3days", "15ms 7us", "5 parsecs", "", "99999999999999999999s"] {
        match parse_duration(text) {
            Ok(duration) => println!("{duration:?} {}", format_duration(duration)),
            Err(error) => println!("{error}"),
        }
    }
    let time = UNIX_EPOCH + Duration::from_millis(1_518_563_312_345);
    println!("{} {:?}", format_rfc3339_millis(time), parse_rfc3339("2018-02-13T23:08:32.345Z")? == time);
    println!(
        "{:?} {}",
        parse_rfc3339_weak("2018-02-13 23:08:32")?.duration_since(UNIX_EPOCH)?,
        parse_rfc3339("2018-13-01T00:00:00Z").unwrap_err()
    );
    let now = SystemTime::now();
    let again = parse_rfc3339(&humantime::format_rfc3339_nanos(now).to_string())?;
    crate_uses::ensure(again == now, "another time")
}

/// Dates, spans and time zones.
pub fn jiff() -> crate_uses::Result {
    use jiff::civil::{Date, DateTime, date};
    use jiff::tz::{TimeZone, offset};

    let start = date(2024, 1, 31).at(22, 30, 0, 0);
    println!("{} {} {:?}", start.checked_add(1.month())?, start.date().last_of_month(), start.weekday());
    println!(
        "{} {}",
        start.until((Unit::Month, date(2026, 3, 1).at(0, 0, 0, 0)))?,
        start.strftime("%a %d %b %Y %I:%M %p")
    );
    let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3")?;
    let zoned = date(2024, 3, 31).at(1, 59, 59, 0).to_zoned(zone)?;
    println!("{} {}", zoned.timestamp(), zoned.checked_add(1.second())?.timestamp());
    println!(
        "{:?} {:?}",
        zoned.checked_add(1.day())?.datetime(),
        zoned.with_time_zone(TimeZone::fixed(offset(-5))).datetime()
    );
    println!("{} {}", "P1Y2M3DT4.5S".parse::<Span>()?, 90.minutes().round(Unit::Hour)?);
    println!("{:?}", "2024-02-30".parse::<Date>().map_err(|error| error.to_string()));
    println!("{}", DateTime::strptime("%Y/%m/%d %H:%M", "2024/07/08 09:10")?);
    crate_uses::ensure(Timestamp::now() > Timestamp::constant(1_700_000_000, 0), "the clock is wrong")?;
    crate_uses::ensure(Zoned::now().year() >= 2024, "the clock is wrong")
}

/// Dates, times and formats.
pub fn time() -> crate_uses::Result {
    use time::macros::{date, offset};
    use time::{Date, Duration};

    let day = date!(2024 - 02 - 28);
    println!("{} {} {:?}", day + Duration::days(2), day.weekday(), day.to_iso_week_date());
    println!(
        "{} {:?}",
        day.next_occurrence(Weekday::Monday),
        Date::from_calendar_date(2023, Month::February, 29).map_err(|error| error.to_string())
    );
    let moment = datetime!(1985-04-12 23:20:50.52 +2);
    println!(
        "{} {} {}",
        moment.format(&Rfc3339)?,
        moment.format(&Rfc2822)?,
        moment.to_offset(offset!(-8)).format(&Iso8601::DEFAULT)?
    );
    let format = format_description!("[day]/[month repr:short]/[year] [hour repr:12]:[minute] [period]");
    println!("{} {:?}", moment.format(&format)?, PrimitiveDateTime::parse("03/Dec/2021 09:05 PM", &format)?);
    println!(
        "{:?}",
        OffsetDateTime::parse("2021-12-03T25:00:00Z", &Rfc3339).map_err(|error| error.to_string())
    );
    println!("{} {}", (moment - OffsetDateTime::UNIX_EPOCH).whole_hours(), Duration::seconds_f64(-93_784.25));
    crate_uses::ensure(OffsetDateTime::now_utc().year() >= 2024, "the clock is wrong")
}
