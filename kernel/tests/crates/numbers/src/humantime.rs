//! Durations and times as people write them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use humantime::{format_duration, format_rfc3339_millis, parse_duration, parse_rfc3339, parse_rfc3339_weak};

pub fn run() -> crate_uses::Result {
    for text in ["2h 37min", "1year 2months 3days", "15ms 7us", "5 parsecs", "", "99999999999999999999s"] {
        match parse_duration(text) {
            Ok(duration) => println!("{duration:?} {}", format_duration(duration)),
            Err(error) => println!("{error}"),
        }
    }
    let time = UNIX_EPOCH + Duration::from_millis(1_518_563_312_345);
    println!("{} {:?}", format_rfc3339_millis(time), parse_rfc3339("2018-02-13T23:08:32.345Z")? == time);
    println!("{:?} {}", parse_rfc3339_weak("2018-02-13 23:08:32")?.duration_since(UNIX_EPOCH)?, parse_rfc3339("2018-13-01T00:00:00Z").unwrap_err());
    let now = SystemTime::now();
    let again = parse_rfc3339(&humantime::format_rfc3339_nanos(now).to_string())?;
    crate_uses::ensure(again == now, "another time")
}
