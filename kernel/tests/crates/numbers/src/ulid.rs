//! Sortable identifiers.

use std::time::{Duration, UNIX_EPOCH};

use ulid::{Generator, Ulid};

pub fn run() -> crate_uses::Result {
    let fixed = Ulid::from_parts(1_700_000_000_000, 0x1234_5678_9abc_def0);
    println!("{fixed} {:?} {:x}", fixed.datetime().duration_since(UNIX_EPOCH)?, fixed.random());
    println!("{:?} {:?}", Ulid::from_string("01ARZ3NDEKTSV4RRFFQ69G5FAV")?.timestamp_ms(), "01ARZ3".parse::<Ulid>().map_err(|error| error.to_string()));
    let mut generator = Generator::new();
    let moment = UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    let made = (0..1000).map(|_| generator.generate_from_datetime(moment)).collect::<Result<Vec<_>, _>>();
    println!("{}", made.map_err(|error| error.to_string())?.is_sorted_by(|one, other| one < other));
    let (one, other) = (Ulid::new(), Ulid::new());
    println!("{} {}", one != other, one.to_string().parse::<Ulid>()? == one);
    Ok(())
}
