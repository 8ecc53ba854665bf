//! Queries that are checked by the compiler, transactions, and a pool of connections.

use ::diesel::connection::SimpleConnection;
use ::diesel::prelude::*;
use ::diesel::r2d2::{ConnectionManager, Pool};
use ::diesel::result::{DatabaseErrorKind, Error};

use crate::database::File;

::diesel::table! {
    city (id) {
        id -> Integer,
        name -> Text,
        people -> BigInt,
        area -> Nullable<Double>,
    }
}

#[derive(Insertable)]
#[diesel(table_name = city)]
struct NewCity<'a> {
    name: &'a str,
    people: i64,
    area: Option<f64>,
}

#[derive(Debug, Queryable, Selectable)]
#[diesel(table_name = city)]
struct City {
    name: String,
    people: i64,
    area: Option<f64>,
}

pub fn run() -> crate_uses::Result {
    let file = File::new("diesel")?;
    let pool = Pool::builder().max_size(3).build(ConnectionManager::<SqliteConnection>::new(&file.path))?;
    let mut connection = pool.get()?;
    connection.batch_execute(
        "CREATE TABLE city (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, people BIGINT NOT NULL, area DOUBLE)",
    )?;
    let cities = [
        NewCity { name: "Ayr", people: 46_000, area: None },
        NewCity { name: "Bern", people: 134_000, area: Some(51.6) },
        NewCity { name: "Cork", people: 222_000, area: Some(187.0) },
    ];
    println!("{}", ::diesel::insert_into(city::table).values(&cities).execute(&mut connection)?);
    let again = ::diesel::insert_into(city::table).values(&cities[0]).execute(&mut connection);
    println!("{}", matches!(again, Err(Error::DatabaseError(DatabaseErrorKind::UniqueViolation, _))));
    let large =
        city::table.filter(city::people.gt(100_000)).order(city::name.desc()).select(City::as_select());
    for City { name, people, area } in large.load(&mut connection)? {
        println!("{name} {people} {area:?}");
    }
    let failed = connection.transaction(|connection| {
        ::diesel::delete(city::table).execute(connection)?;
        Err::<(), _>(Error::RollbackTransaction)
    });
    println!("{failed:?}");
    drop(connection);

    std::thread::scope(|scope| {
        for name in ["Ayr", "Bern", "Cork"] {
            let pool = pool.clone();
            scope.spawn(move || {
                let mut connection = pool.get().unwrap();
                connection.batch_execute("PRAGMA busy_timeout = 10000").unwrap();
                for _ in 0..20 {
                    let row = city::table.filter(city::name.eq(name));
                    ::diesel::update(row)
                        .set(city::people.eq(city::people + 1))
                        .execute(&mut connection)
                        .unwrap();
                }
            });
        }
    });
    let connection = &mut pool.get()?;
    println!(
        "{:?}",
        city::table.select((city::name, city::people)).order(city::id).load::<(String, i64)>(connection)?
    );
    let sum = city::table.select(::diesel::dsl::sum(city::area)).first::<Option<f64>>(connection)?;
    println!("{sum:?} {}", city::table.count().get_result::<i64>(connection)?);
    Ok(())
}
