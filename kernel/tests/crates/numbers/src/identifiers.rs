//! Identifiers.

use std::collections::BTreeSet;
use std::time::{Duration, UNIX_EPOCH};

use ulid::{Generator, Ulid};
use uuid::{Uuid, Variant, Version};

/// Random identifiers.
pub fn nanoid() -> crate_uses::Result {
    let identifiers: BTreeSet<String> = (0..500).map(|_| nanoid::nanoid!()).collect();
    println!("{} {}", identifiers.len(), identifiers.iter().all(|text| text.len() == 21));
    let digits: Vec<char> = ('0'..='9').collect();
    let number = nanoid::nanoid!(50, &digits);
    println!("{}", number.len() == 50 && number.chars().all(|digit| digit.is_ascii_digit()));
    let fixed = |size: usize| (0..size).map(|index| (index * 37) as u8).collect::<Vec<u8>>();
    println!("{}", nanoid::format(fixed, &nanoid::alphabet::SAFE, 12));
    Ok(())
}

/// Sortable identifiers.
pub fn ulid() -> crate_uses::Result {
    let fixed = Ulid::from_parts(1_700_000_000_000, 0x1234_5678_9abc_def0);
    println!("{fixed} {:?} {:x}", fixed.datetime().duration_since(UNIX_EPOCH)?, fixed.random());
    println!(
        "{:?} {:?}",
        Ulid::from_string("01ARZ3NDEKTSV4RRFFQ69G5FAV")?.timestamp_ms(),
        "01ARZ3".parse::<Ulid>().map_err(|error| error.to_string())
    );
    let mut generator = Generator::new();
    let moment = UNIX_EPOCH + Duration::from_secs(1_600_000_000);
    let made = (0..1000).map(|_| generator.generate_from_datetime(moment)).collect::<Result<Vec<_>, _>>();
    println!("{}", made.map_err(|error| error.to_string())?.is_sorted_by(|one, other| one < other));
    let (one, other) = (Ulid::new(), Ulid::new());
    println!("{} {}", one != other, one.to_string().parse::<Ulid>()? == one);
    Ok(())
}

/// Universally unique identifiers.
pub fn uuid() -> crate_uses::Result {
    let named = Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"example.org");
    println!("{named} {:?} {}", named.get_version(), named.urn());
    println!("{} {:?}", named.simple(), named.as_fields());
    let random: BTreeSet<Uuid> = (0..1000).map(|_| Uuid::new_v4()).collect();
    println!("{} {}", random.len(), random.iter().all(|id| id.get_variant() == Variant::RFC4122));
    let ordered: Vec<Uuid> = (0..100).map(|_| Uuid::now_v7()).collect();
    println!("{} {:?}", ordered.is_sorted(), ordered[0].get_version() == Some(Version::SortRand));
    for text in
        ["{67E55044-10B1-426F-9247-BB680E5FE0C8}", "67e5504410b1426f9247bb680e5fe0c8", "67e55044-10b1", "z"]
    {
        println!("{:?}", Uuid::parse_str(text).map_err(|error| error.to_string()));
    }
    Ok(())
}
