//! Redis: values of all kinds, a script, a transaction, many tasks on one connection, publishing, and waiting
//! for a list.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncCommands, Client, Commands, Connection, RedisResult, Script};
use futures_util::StreamExt;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn blocking(connection: &mut Connection) -> Result<()> {
    let binary: Vec<u8> = crate_uses::numbers(1).map(|number| number as u8).take(1_000_000).collect();
    let () = connection.set("binary", &binary)?;
    println!("{}", connection.get::<_, Vec<u8>>("binary")? == binary);
    let () = connection.hset_multiple("hash", &[("one", 1), ("two", 2)])?;
    println!("{:?}", connection.hgetall::<_, BTreeMap<String, i32>>("hash")?);
    let added: usize = connection.sadd("set", &["a", "b", "c", "a"])?;
    println!("{added} {:?}", connection.smembers::<_, BTreeSet<String>>("set")?);
    for number in 0..500 {
        let () = connection.set(format!("key:{number}"), number)?;
    }
    let keys: BTreeSet<String> = connection.scan_match("key:*")?.collect();
    println!("{} keys", keys.len());
    let sum = Script::new("return redis.call('GET', KEYS[1]) + ARGV[1]");
    println!("{}", sum.key("key:40").arg(2).invoke::<i32>(connection)?);
    let (old, new): (i32, i32) = ::redis::transaction(connection, &["key:1"], |connection, pipe| {
        let old: i32 = connection.get("key:1")?;
        pipe.getset("key:1", old * 10).incr("key:1", 1).query(connection)
    })?;
    println!("{old} {new}");
    let wrong = connection.incr::<_, _, i32>("binary", 1);
    println!("{:?}", wrong.map_err(|error| error.code().map(str::to_owned)));
    Ok(())
}

async fn many_tasks(connection: &MultiplexedConnection) -> Result<()> {
    let tasks = (0..100).map(|number| {
        let mut connection = connection.clone();
        tokio::spawn(async move {
            let key = format!("key:{number}");
            let () = connection.append(&key, "x".repeat(1000)).await?;
            connection.strlen::<_, usize>(&key).await
        })
    });
    let mut total = 0;
    for task in tasks.collect::<Vec<_>>() {
        total += task.await??;
    }
    println!("{total} bytes");
    Ok(())
}

async fn publishing(client: &Client, connection: &MultiplexedConnection) -> Result<()> {
    let mut subscriber = client.get_async_pubsub().await?;
    subscriber.subscribe("news").await?;
    let mut publisher = connection.clone();
    for number in 0..10 {
        let receivers: usize = publisher.publish("news", number).await?;
        assert_eq!(receivers, 1);
    }
    let messages = subscriber.on_message().take(10).map(|message| message.get_payload::<u32>());
    let messages: Vec<_> = messages.collect().await;
    println!("{:?}", messages.into_iter().collect::<RedisResult<Vec<_>>>()?);
    Ok(())
}

async fn waiting(client: &Client, connection: &MultiplexedConnection) -> Result<()> {
    let mut waiter = client.get_multiplexed_async_connection().await?;
    let popped = tokio::spawn(async move { waiter.blpop::<_, (String, String)>("list", 0.0).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let () = connection.clone().rpush("list", "pushed").await?;
    println!("{:?}", popped.await??);
    Ok(())
}

pub fn run() -> crate_uses::Result {
    let (host, port) = crate::address()?;
    let client = Client::open(format!("redis://{host}:{port}/"))?;
    let mut connection = client.get_connection()?;
    let () = ::redis::cmd("FLUSHALL").query(&mut connection)?;
    blocking(&mut connection)?;
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let connection = client.get_multiplexed_async_connection().await?;
        many_tasks(&connection).await?;
        publishing(&client, &connection).await?;
        waiting(&client, &connection).await
    })
}
