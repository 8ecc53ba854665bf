//! A database with transactions, which is opened again.

use redb::{Database, MultimapTableDefinition, ReadableDatabase, ReadableTableMetadata, TableDefinition};

use crate::folder::Folder;

const NUMBERS: TableDefinition<'_, u64, &str> = TableDefinition::new("numbers");
const WORDS: MultimapTableDefinition<'_, &str, u32> = MultimapTableDefinition::new("words");

pub fn run() -> crate_uses::Result {
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
