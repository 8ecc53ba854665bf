//! A pool of connections to a file, transactions, and rows as structures.

use std::time::Duration;

use ::sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions};
use ::sqlx::{FromRow, Row, query, query_as, query_scalar};

use crate::database::File;

#[derive(Debug, FromRow)]
struct Item {
    name: String,
    price: f64,
    tags: Option<String>,
}

pub fn run() -> crate_uses::Result {
    let file = File::new("sqlx")?;
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let options = SqliteConnectOptions::new().filename(&file.path).create_if_missing(true);
        let options = options.busy_timeout(Duration::from_secs(20));
        let pool = SqlitePoolOptions::new().max_connections(4).connect_with(options).await?;
        query("CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT UNIQUE, price REAL, tags TEXT)")
            .execute(&pool)
            .await?;
        let mut transaction = pool.begin().await?;
        for (name, price, tags) in [("pen", 1.5, Some("red,blue")), ("ink", 4.25, None), ("cup", 3.0, None)] {
            let insert = query("INSERT INTO item (name, price, tags) VALUES (?, ?, ?)");
            let done = insert.bind(name).bind(price).bind(tags).execute(&mut *transaction).await?;
            println!("{} {}", done.rows_affected(), done.last_insert_rowid());
        }
        transaction.commit().await?;
        let mut transaction = pool.begin().await?;
        query("DELETE FROM item").execute(&mut *transaction).await?;
        drop(transaction);
        let items: Vec<Item> =
            query_as("SELECT * FROM item WHERE price < ? ORDER BY price").bind(4.0).fetch_all(&pool).await?;
        for Item { name, price, tags } in items {
            println!("{name} {price} {tags:?}");
        }
        let twice = query("INSERT INTO item (name) VALUES ('pen')").execute(&pool).await;
        println!(
            "{:?}",
            twice.err().and_then(|error| Some(error.as_database_error()?.is_unique_violation()))
        );

        let tasks: Vec<_> = (0..4)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move {
                    for _ in 0..10 {
                        query("UPDATE item SET price = price + 0.5 WHERE name = 'cup'")
                            .execute(&pool)
                            .await?;
                    }
                    Ok::<_, ::sqlx::Error>(())
                })
            })
            .collect();
        for task in tasks {
            task.await??;
        }
        let price: f64 = query_scalar("SELECT price FROM item WHERE name = 'cup'").fetch_one(&pool).await?;
        let row = query("SELECT count(*) AS n, group_concat(name, ' ') AS names FROM item")
            .fetch_one(&pool)
            .await?;
        println!("{price} {} {}", row.try_get::<i64, _>("n")?, row.try_get::<String, _>("names")?);
        pool.close().await;
        Ok(())
    })
}
