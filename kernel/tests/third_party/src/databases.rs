//! redb and sled: databases in files, which are opened again.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::thread;
use std::time::{Duration, Instant};

use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use crate::{TestResult, digest, ensure, numbers};

/// Number of entries.
const ENTRIES: usize = 2_000;

/// Time after which a database that is still locked is given up.
const LOCK_TIMEOUT: Duration = Duration::from_secs(150);

const TABLE: TableDefinition<'_, u32, &str> = TableDefinition::new("entries");

/// Entries to be stored.
fn entries(seed: u64) -> BTreeMap<u32, String> {
    numbers(seed).take(ENTRIES).map(|number| (number, format!("value {number:x}"))).collect()
}

/// Transactions on a B-tree. One of them is aborted.
pub(crate) fn redb() -> TestResult {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("data.redb");
    let (wanted, others) = (entries(17), entries(19));
    let database = redb::Database::create(&path)?;
    let transaction = database.begin_write()?;
    {
        let mut table = transaction.open_table(TABLE)?;
        for (key, value) in &wanted {
            table.insert(key, value.as_str())?;
        }
    }
    transaction.commit()?;
    let transaction = database.begin_write()?;
    for (key, value) in &others {
        transaction.open_table(TABLE)?.insert(key, value.as_str())?;
    }
    transaction.abort()?;
    drop(database);

    let database = redb::Database::open(&path)?;
    let table = database.begin_read()?.open_table(TABLE)?;
    ensure(table.len()? == wanted.len() as u64, || "the aborted transaction is there".to_owned())?;
    let mut found = BTreeMap::new();
    for entry in table.iter()? {
        let (key, value) = entry?;
        found.insert(key.value(), value.value().to_owned());
    }
    ensure(found == wanted, || "other entries were found".to_owned())?;
    Ok(digest(&found))
}

/// A log-structured tree with a merge of values and a range.
pub(crate) fn sled() -> TestResult {
    let folder = tempfile::tempdir()?;
    let configuration = sled::Config::new().path(folder.path().join("data")).cache_capacity(1 << 20);
    let wanted = entries(23);
    let database = configuration.open()?;
    for (key, value) in &wanted {
        database.insert(key.to_be_bytes(), value.as_str())?;
    }
    let removed: Vec<u32> = wanted.keys().copied().filter(|key| key % 3 == 0).collect();
    for key in &removed {
        database.remove(key.to_be_bytes())?;
    }
    database.flush()?;
    drop(database);

    let database = reopen(&configuration)?;
    let mut found = Vec::new();
    for entry in database.iter() {
        let (key, value) = entry?;
        found.push((key.to_vec(), value.to_vec()));
    }
    ensure(found.len() == wanted.len() - removed.len(), || format!("{} entries", found.len()))?;
    Ok(digest(&found))
}

/// Opens a database again. Its files stay locked until its threads have ended, which dropping it does not
/// wait for.
fn reopen(configuration: &sled::Config) -> sled::Result<sled::Db> {
    let start = Instant::now();
    loop {
        match configuration.open() {
            Err(sled::Error::Io(error))
                if error.kind() == ErrorKind::Other && start.elapsed() < LOCK_TIMEOUT =>
            {
                thread::sleep(Duration::from_millis(10));
            }
            result => return result,
        }
    }
}
