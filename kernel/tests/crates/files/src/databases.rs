//! Databases in files, which are opened again.

use std::io::ErrorKind;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use fjall::{Config, PartitionCreateOptions, PersistMode};
use redb::{Database, MultimapTableDefinition, ReadableDatabase, ReadableTableMetadata, TableDefinition};

use crate::folder::Folder;

/// A database of log-structured trees, which is opened again.
pub fn fjall() -> crate_uses::Result {
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

const NUMBERS: TableDefinition<'_, u64, &str> = TableDefinition::new("numbers");
const WORDS: MultimapTableDefinition<'_, &str, u32> = MultimapTableDefinition::new("words");

/// A database with transactions, which is opened again.
pub fn redb() -> crate_uses::Result {
    let folder = Folder::new("redb")?;
    let file = folder.path().join("data.redb");
    {
        let database = Database::create(&file)?;
        let write = database.begin_write()?;
        {
            let (mut numbers, mut words) = (write.open_table(NUMBERS)?, write.open_multimap_table(WORDS)?);
            for number in 0..500_u64 {
                numbers.insert(number * number, number.to_string().as_str())?;
                words.insert(["even", "odd"][number as usize % 2], number as u32)?;
            }
            numbers.remove(16)?;
        }
        write.commit()?;
        let aborted = database.begin_write()?;
        aborted.open_table(NUMBERS)?.retain(|_, _| false)?;
        aborted.abort()?;
    }
    let database = Database::open(&file)?;
    let read = database.begin_read()?;
    let numbers = read.open_table(NUMBERS)?;
    println!("{} {:?}", numbers.len()?, numbers.get(16)?.is_none());
    for entry in numbers.range(100..200)? {
        let (key, value) = entry?;
        println!("{} {}", key.value(), value.value());
    }
    let odd = read.open_multimap_table(WORDS)?.get("odd")?.map(|value| value.map(|value| value.value()));
    println!("{}", odd.sum::<Result<u32, _>>()?);
    println!("{}", read.open_table(TableDefinition::<u64, &str>::new("none")).is_err());
    Ok(())
}

/// How long a database that was dropped may stay locked: until its threads have ended.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// A database of trees for threads, which is opened again, but not twice at a time.
pub fn sled() -> crate_uses::Result {
    let folder = Folder::new("sled")?;
    {
        let database = sled::Config::new().path(folder.path()).cache_capacity(1 << 20).open()?;
        let threads: Vec<_> = (0..3_u32)
            .map(|index| {
                let tree = database.open_tree(format!("tree {}", index % 2));
                thread::spawn(move || -> sled::Result<()> {
                    let tree = tree?;
                    for number in 0..300 {
                        tree.insert((number * 3 + index).to_be_bytes(), number.to_string().as_bytes())?;
                        tree.update_and_fetch("sum", |old| {
                            let old = old.and_then(|old| old.try_into().ok()).map_or(0, u64::from_be_bytes);
                            Some((old + 1).to_be_bytes().to_vec())
                        })?;
                    }
                    Ok(())
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "panic")??;
        }
        database.flush()?;
    }
    let database = reopen(folder.path())?;
    println!("opened twice: {}", sled::open(folder.path()).is_ok());
    for name in ["tree 0", "tree 1"] {
        let tree = database.open_tree(name)?;
        println!("{} {:?} {:?}", tree.len(), tree.get("sum")?, tree.get(7_u32.to_be_bytes())?);
        println!(
            "{:?}",
            tree.range(30_u32.to_be_bytes()..36_u32.to_be_bytes()).values().collect::<Result<Vec<_>, _>>()?
        );
    }
    println!("{:?}", database.compare_and_swap("a", None::<&str>, Some("b"))?);
    println!("{:?}", database.compare_and_swap("a", Some("x"), Some("y"))?.is_err());
    Ok(())
}

fn reopen(folder: &Path) -> sled::Result<sled::Db> {
    let start = Instant::now();
    loop {
        match sled::open(folder) {
            Err(sled::Error::Io(error))
                if error.kind() == ErrorKind::Other && start.elapsed() < LOCK_TIMEOUT =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}
