//! Universally unique identifiers.

use std::collections::BTreeSet;

use uuid::{Uuid, Variant, Version};

pub fn run() -> crate_uses::Result {
    let named = Uuid::new_v5(&Uuid::NAMESPACE_DNS, b"example.org");
    println!("{named} {:?} {}", named.get_version(), named.urn());
    println!("{} {:?}", named.simple(), named.as_fields());
    let random: BTreeSet<Uuid> = (0..1000).map(|_| Uuid::new_v4()).collect();
    println!("{} {}", random.len(), random.iter().all(|id| id.get_variant() == Variant::RFC4122));
    let ordered: Vec<Uuid> = (0..100).map(|_| Uuid::now_v7()).collect();
    println!("{} {:?}", ordered.is_sorted(), ordered[0].get_version() == Some(Version::SortRand));
    for text in ["{67E55044-10B1-426F-9247-BB680E5FE0C8}", "67e5504410b1426f9247bb680e5fe0c8", "67e55044-10b1", "z"] {
        println!("{:?}", Uuid::parse_str(text).map_err(|error| error.to_string()));
    }
    Ok(())
}
