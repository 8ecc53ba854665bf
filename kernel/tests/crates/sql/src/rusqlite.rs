//! Transactions, functions of the program, and two connections to a file.

use std::time::Duration;

use ::rusqlite::functions::FunctionFlags;
use ::rusqlite::{Connection, ErrorCode, TransactionBehavior, params};

use crate::database::File;

pub fn run() -> crate_uses::Result {
    let file = File::new("rusqlite")?;
    let mut one = Connection::open(&file.path)?;
    one.execute_batch(
        "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, data BLOB);
         CREATE INDEX by_name ON person (name);",
    )?;
    let transaction = one.transaction()?;
    for number in 0..500_u32 {
        let data = number.to_le_bytes();
        transaction.execute(
            "INSERT INTO person (name, data) VALUES (?1, ?2)",
            params![format!("p{number}"), data],
        )?;
    }
    transaction.commit()?;
    let transaction = one.transaction()?;
    transaction.execute("DELETE FROM person", [])?;
    transaction.rollback()?;
    println!(
        "{:?}",
        one.execute("INSERT INTO person (name) VALUES ('p7')", []).map_err(|error| error.to_string())
    );

    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    one.create_scalar_function("digest", 1, flags, |context| {
        Ok(crate_uses::digest(context.get_raw(0).as_blob()?))
    })?;
    let mut query =
        one.prepare("SELECT name, digest(data) FROM person WHERE name LIKE 'p4_' ORDER BY id DESC LIMIT 3")?;
    let rows = query.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?)))?;
    println!("{:?}", rows.collect::<Result<Vec<_>, _>>()?);
    drop(query);

    let mut two = Connection::open(&file.path)?;
    two.busy_timeout(Duration::ZERO)?;
    let writing = one.transaction_with_behavior(TransactionBehavior::Immediate)?;
    writing.execute("UPDATE person SET name = upper(name)", [])?;
    let refused = two.transaction_with_behavior(TransactionBehavior::Immediate).err();
    println!(
        "busy: {:?}",
        refused.and_then(|error| error.sqlite_error_code()) == Some(ErrorCode::DatabaseBusy)
    );
    writing.commit()?;
    let count = |pattern: &str| -> ::rusqlite::Result<u32> {
        two.query_row("SELECT count(*) FROM person WHERE name GLOB ?1", [pattern], |row| row.get(0))
    };
    println!("{} {}", count("p*")?, count("P*")?);
    println!("{}", two.query_row("PRAGMA integrity_check", [], |row| row.get::<_, String>(0))?);
    println!(
        "{}",
        two.query_row("SELECT sum(length(data)), round(avg(id), 2) FROM person", [], |row| {
            Ok(format!("{} {}", row.get::<_, u32>(0)?, row.get::<_, f64>(1)?))
        })?
    );
    Ok(())
}
