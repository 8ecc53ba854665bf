//! A client of a small server that speaks the protocol of Redis: blocking, pipelined and asynchronous.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use ::redis::{AsyncCommands, Commands};

type Store = Arc<Mutex<BTreeMap<String, String>>>;

/// Starts the server; its threads end with the program.
fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let store = Store::default();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let store = store.clone();
            thread::spawn(move || serve(stream, &store));
        }
    });
    Ok(address)
}

fn serve(mut stream: TcpStream, store: &Store) -> io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    loop {
        let count = number(&mut reader)?;
        let words = (0..count).map(|_| word(&mut reader)).collect::<io::Result<Vec<_>>>()?;
        stream.write_all(reply(&words, store).as_bytes())?;
    }
}

/// Reads the line of a length: a character for the type, and a number.
fn number(reader: &mut impl BufRead) -> io::Result<usize> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let digits = line.trim_end().get(1..).ok_or(io::ErrorKind::UnexpectedEof)?;
    digits.parse().map_err(|_| io::ErrorKind::InvalidData.into())
}

fn word(reader: &mut impl BufRead) -> io::Result<String> {
    let mut bytes = vec![0; number(reader)? + 2];
    reader.read_exact(&mut bytes)?;
    bytes.truncate(bytes.len() - 2);
    String::from_utf8(bytes).map_err(|_| io::ErrorKind::InvalidData.into())
}

fn reply(words: &[String], store: &Store) -> String {
    let mut store = store.lock().unwrap_or_else(PoisonError::into_inner);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["PING"] => "+PONG\r\n".to_owned(),
        ["CLIENT", ..] => "+OK\r\n".to_owned(),
        ["SET", key, value] => {
            store.insert(key.to_owned(), value.to_owned());
            "+OK\r\n".to_owned()
        }
        ["GET", key] => {
            store.get(key).map_or("$-1\r\n".to_owned(), |value| format!("${}\r\n{value}\r\n", value.len()))
        }
        ["INCRBY", key, step] => {
            let value = store.get(key).and_then(|value| value.parse().ok()).unwrap_or(0_i64);
            let value = value + step.parse().unwrap_or(0);
            store.insert(key.to_owned(), value.to_string());
            format!(":{value}\r\n")
        }
        _ => format!("-ERR unknown command '{}'\r\n", words[0]),
    }
}

pub fn run() -> crate_uses::Result {
    let client = ::redis::Client::open(format!("redis://{}/", start()?))?;
    let mut connection = client.get_connection()?;
    let long = "größe ".repeat(5000);
    let () = connection.set("long", &long)?;
    println!(
        "{} {:?}",
        connection.get::<_, String>("long")? == long,
        connection.get::<_, Option<u8>>("none")?
    );
    let (first, second): (i64, String) =
        ::redis::pipe().incr("count", 5).set("name", "ada").ignore().get("name").query(&mut connection)?;
    println!("{first} {second}");
    let unknown = ::redis::cmd("NOSUCH").query::<()>(&mut connection);
    println!("{:?}", unknown.map_err(|error| (error.kind(), error.to_string())));
    println!("{:?}", connection.get::<_, u8>("name").map_err(|error| error.kind()));
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let connection = client.get_multiplexed_async_connection().await?;
        let tasks = (0..20).map(|index| {
            let mut connection = connection.clone();
            tokio::spawn(async move { connection.incr::<_, _, i64>("count", index).await })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await??;
        }
        println!("{}", connection.clone().get::<_, i64>("count").await?);
        Ok(())
    })
}
