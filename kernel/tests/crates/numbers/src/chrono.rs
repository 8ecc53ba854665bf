//! Dates, times and durations.

use chrono::{DateTime, Datelike, Days, Duration, FixedOffset, Local, Months, NaiveDate, NaiveDateTime, SecondsFormat, TimeZone, Utc};

pub fn run() -> crate_uses::Result {
    let date = NaiveDate::from_ymd_opt(2024, 2, 29).ok_or("no date")?;
    println!("{date} {} {:?} {}", date.weekday(), date.checked_add_months(Months::new(12)), date.iso_week().week());
    let zone = FixedOffset::east_opt(2 * 3600).ok_or("no zone")?;
    let time = zone.from_local_datetime(&date.and_hms_milli_opt(23, 59, 59, 250).ok_or("no time")?).single().ok_or("ambiguous")?;
    println!("{} {}", time.to_rfc3339(), time.with_timezone(&Utc).format("%A %e %B %Y %H:%M:%S%.3f %j"));
    println!("{:?}", DateTime::parse_from_rfc2822("Tue, 1 Jul 2003 10:52:37 +0200")?.timestamp());
    println!("{:?}", NaiveDateTime::parse_from_str("5.9.2015 7:08", "%d.%m.%Y %H:%M")?);
    println!("{:?}", "2015-02-30".parse::<NaiveDate>().map_err(|error| error.to_string()));
    let later = time + Duration::hours(5) + Days::new(300);
    println!("{} {}", (later - time).num_minutes(), later.to_rfc3339_opts(SecondsFormat::Secs, true));
    let (now, local) = (Utc::now(), Local::now());
    crate_uses::ensure(now.year() >= 2024 && (local.with_timezone(&Utc) - now).num_seconds() < 60, "the clock is wrong")
}
