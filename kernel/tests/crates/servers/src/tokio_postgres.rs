//! PostgreSQL: a password by SCRAM, types, transactions, many queries at a time, copying, notifications, and
//! cancelling.

use std::future;
use std::io::Cursor;

use ::tokio_postgres::{AsyncMessage, Client, Config, NoTls, Transaction};
use futures_util::{SinkExt, StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Connects; the receiver has the notifications.
async fn connect(password: &str) -> Result<(Client, UnboundedReceiver<String>)> {
    let (host, port) = crate::address()?;
    let mut settings = Config::new();
    settings.host(host).port(port).user("ada").password(password).dbname("postgres");
    let (client, mut connection) = settings.connect(NoTls).await?;
    let (sender, receiver) = unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(|context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notification(notification) = message {
                let _ = sender.send(notification.payload().to_owned());
            }
        }
    });
    Ok((client, receiver))
}

async fn types(client: &Client) -> Result<()> {
    let statement = client.prepare("INSERT INTO items VALUES ($1, $2, $3, $4) RETURNING id").await?;
    for id in 0..100_i32 {
        let bytes: Vec<u8> = (0..id).map(|byte| byte as u8).collect();
        let name = (id % 3 != 0).then(|| format!("größe {id}"));
        client.query_one(&statement, &[&id, &name, &f64::from(id).sqrt(), &bytes]).await?;
    }
    let row = client.query_one("SELECT * FROM items WHERE id = 16", &[]).await?;
    let columns: Vec<_> = row.columns().iter().map(|column| column.type_().to_string()).collect();
    println!(
        "{columns:?} {:?} {} {:?}",
        row.get::<_, Option<&str>>(1),
        row.get::<_, f64>(2),
        row.get::<_, &[u8]>(3)
    );
    let nulls: i64 = client.query_one("SELECT count(*) FROM items WHERE name IS NULL", &[]).await?.get(0);
    println!("{nulls} without a name");
    let twice = client.execute(&statement, &[&1, &"again", &0.0, &&b""[..]]).await;
    println!("{:?}", twice.map_err(|error| error.code().map(|code| code.code().to_owned())));
    Ok(())
}

async fn add(transaction: &Transaction<'_>, sum: f64) -> Result<u64> {
    Ok(transaction.execute("UPDATE items SET size = size + $1 WHERE id < 10", &[&sum]).await?)
}

async fn transactions(client: &mut Client) -> Result<()> {
    let before: f64 = client.query_one("SELECT sum(size) FROM items", &[]).await?.get(0);
    let transaction = client.transaction().await?;
    let changed = add(&transaction, 5.0).await?;
    transaction.rollback().await?;
    let mut transaction = client.transaction().await?;
    add(&transaction, 1.0).await?;
    let savepoint = transaction.savepoint("part").await?;
    add(&savepoint, 100.0).await?;
    drop(savepoint);
    transaction.commit().await?;
    let after: f64 = client.query_one("SELECT sum(size) FROM items", &[]).await?.get(0);
    println!("{changed} rows, {:.3} more", after - before);
    Ok(())
}

/// 200 queries, sent without waiting for the results of those before.
async fn many_queries(client: &Client) -> Result<()> {
    let statement = client.prepare("SELECT $1::int8 * 2").await?;
    let queries = (0..200_i64).map(|number| {
        let (client, statement) = (client, &statement);
        async move { client.query_one(statement, &[&number]).await?.try_get::<_, i64>(0) }
    });
    let doubled: Vec<i64> = stream::iter(queries).buffered(200).try_collect().await?;
    println!("{}", doubled.iter().sum::<i64>());
    let rows = client.query_raw("SELECT repeat('x', 1000) FROM generate_series(1, 5000)", [0_i32; 0]).await?;
    let bytes = rows.try_fold(0, |sum, row| future::ready(Ok(sum + row.get::<_, &str>(0).len()))).await?;
    println!("{bytes} bytes");
    Ok(())
}

async fn copying(client: &Client) -> Result<()> {
    let sink = client.copy_in::<_, Cursor<Vec<u8>>>("COPY items (id, name, size) FROM STDIN").await?;
    let mut sink = std::pin::pin!(sink);
    for id in 1000..3000 {
        sink.send(Cursor::new(format!("{id}\tname {id}\t{}\n", id % 7).into_bytes())).await?;
    }
    println!("{} rows copied", sink.finish().await?);
    let out = client.copy_out("COPY (SELECT id, name FROM items ORDER BY id) TO STDOUT").await?;
    let text: Vec<u8> = out
        .try_fold(Vec::new(), |mut all, part| {
            all.extend_from_slice(&part);
            future::ready(Ok(all))
        })
        .await?;
    println!("{}", crate_uses::digest(&text));
    Ok(())
}

async fn cancelling(client: &Client) -> Result<()> {
    let token = client.cancel_token();
    let query = client.batch_execute("SELECT pg_sleep(3600)");
    let cancel = async {
        // The server ignores a request that arrives before the query.
        let running =
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3600)' AND state = 'active'";
        let (other, _notifications) = connect("secret").await?;
        while other.query_one(running, &[]).await?.get::<_, i64>(0) == 0 {
            tokio::task::yield_now().await;
        }
        Ok(token.cancel_query(NoTls).await?)
    };
    let (query, cancelled): (_, Result<()>) = tokio::join!(query, cancel);
    cancelled?;
    println!("{:?}", query.map_err(|error| error.code().map(|code| code.code().to_owned())));
    Ok(())
}

pub fn run() -> crate_uses::Result {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let (mut client, mut notifications) = connect("secret").await?;
        client
            .batch_execute(
                "DROP TABLE IF EXISTS items;
                 CREATE TABLE items (id int PRIMARY KEY, name text, size float8, bytes bytea);
                 LISTEN news",
            )
            .await?;
        types(&client).await?;
        transactions(&mut client).await?;
        many_queries(&client).await?;
        copying(&client).await?;
        client.batch_execute("NOTIFY news, 'first'; NOTIFY news, 'second'").await?;
        println!("{:?} {:?}", notifications.recv().await, notifications.recv().await);
        cancelling(&client).await?;
        let refused = connect("wrong").await.map(|_| ());
        let refused = refused.map_err(|error| error.downcast::<::tokio_postgres::Error>());
        println!(
            "{:?}",
            refused.map_err(|error| error.map(|error| error.code().map(|code| code.code().to_owned())))
        );
        Ok(())
    })
}
