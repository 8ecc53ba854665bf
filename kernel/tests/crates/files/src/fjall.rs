//! A database of log-structured trees, which is opened again.

use fjall::{Config, PartitionCreateOptions, PersistMode};

use crate::folder::Folder;

pub fn run() -> crate_uses::Result {
    let folder = Folder::new("fjall")?;
    {
        let keyspace = Config::new(folder.path()).open()?;
        let items = keyspace.open_partition("items", PartitionCreateOptions::default())?;
        for number in crate_uses::numbers(12).take(2000) {
            items.insert(format!("{:05}", number % 3000), number.to_be_bytes())?;
        }
        let mut batch = keyspace.batch();
        batch.insert(&items, "zz", "last");
        batch.remove(&items, "00010");
        batch.commit()?;
        keyspace.persist(PersistMode::SyncAll)?;
    }
    let keyspace = Config::new(folder.path()).open()?;
    let items = keyspace.open_partition("items", PartitionCreateOptions::default())?;
    println!("{} {:?} {:?}", items.len()?, items.get("zz")?, items.contains_key("00010")?);
    for entry in items.range("01000".."01010") {
        let (key, value) = entry?;
        println!("{} {:?}", str::from_utf8(&key)?, &value[..]);
    }
    println!("{:?}", items.first_key_value()?.map(|(key, _)| String::from_utf8_lossy(&key).into_owned()));
    Ok(())
}
