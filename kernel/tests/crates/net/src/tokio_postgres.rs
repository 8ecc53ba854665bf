//! A client of a small server that speaks the protocol of PostgreSQL: a password, text and prepared
//! statements.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;

use ::tokio_postgres::{Client, NoTls, SimpleQueryMessage};

/// Number of PostgreSQL's type of 32-bit integers.
const INT4: i32 = 23;

/// Starts the server; its threads end with the program.
fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(stream));
        }
    });
    Ok(address)
}

fn serve(mut stream: TcpStream) -> io::Result<()> {
    body(&mut stream)?;
    stream.write_all(&message(b'R', &3_i32.to_be_bytes()))?;
    let (_, password) = receive(&mut stream)?;
    if password != b"secret\0" {
        return stream.write_all(&error("28P01", "wrong password"));
    }
    stream
        .write_all(&[message(b'R', &[0; 4]), message(b'S', b"server_version\x0017\0"), ready()].concat())?;
    let mut sum = 0_i32;
    loop {
        let (tag, body) = receive(&mut stream)?;
        let reply = match tag {
            b'Q' => [simple(&body), ready()].concat(),
            b'P' => message(b'1', &[]),
            b'D' => {
                let integer = INT4.to_be_bytes();
                [message(b't', &[&[0, 2][..], &integer, &integer].concat()), columns(INT4, 1)].concat()
            }
            b'B' => {
                sum = parameters(&body).iter().sum();
                message(b'2', &[])
            }
            b'E' => [row(&sum.to_be_bytes()), message(b'C', b"SELECT 1\0")].concat(),
            b'C' => message(b'3', &[]),
            b'S' => ready(),
            _ => return Ok(()),
        };
        stream.write_all(&reply)?;
    }
}

/// Reads the length and the rest of a message.
fn body(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
    stream.read_exact(&mut body)?;
    Ok(body)
}

fn receive(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut tag = [0];
    stream.read_exact(&mut tag)?;
    Ok((tag[0], body(stream)?))
}

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u32 + 4).to_be_bytes();
    [&[tag][..], &length, body].concat()
}

fn ready() -> Vec<u8> {
    message(b'Z', b"I")
}

fn error(code: &str, text: &str) -> Vec<u8> {
    message(b'E', format!("SERROR\0C{code}\0M{text}\0\0").as_bytes())
}

/// One column, of a type, as text (0) or in binary (1).
fn columns(kind: i32, format: u8) -> Vec<u8> {
    let table = [0; 6];
    message(
        b'T',
        &[b"\0\x01value\0", &table[..], &kind.to_be_bytes(), &[0, 4, 255, 255, 255, 255, 0, format]].concat(),
    )
}

fn row(value: &[u8]) -> Vec<u8> {
    message(b'D', &[&[0, 1][..], &(value.len() as u32).to_be_bytes(), value].concat())
}

/// Answers a query in text: the words of `SELECT a b c` are rows.
fn simple(query: &[u8]) -> Vec<u8> {
    let query = String::from_utf8_lossy(query);
    let Some(words) = query.trim_end_matches('\0').strip_prefix("SELECT ") else {
        return error("42601", "syntax error");
    };
    let rows: Vec<Vec<u8>> = words.split(' ').map(|word| row(word.as_bytes())).collect();
    let done = format!("SELECT {}\0", rows.len());
    [columns(25, 0), rows.concat(), message(b'C', done.as_bytes())].concat()
}

/// The two integers at the end of a message that binds them: each has a length before it, and the formats of
/// results follow.
fn parameters(body: &[u8]) -> Vec<i32> {
    let integer = |at: usize| {
        body.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, i32::from_be_bytes)
    };
    let end = body.len() - 4;
    vec![integer(end - 12), integer(end - 4)]
}

async fn connect(address: SocketAddr, password: &str) -> Result<Client, ::tokio_postgres::Error> {
    let settings = format!("host={} port={} user=ada password={password}", address.ip(), address.port());
    let (client, connection) = ::tokio_postgres::connect(&settings, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

pub fn run() -> crate_uses::Result {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let address = start()?;
        let client = connect(address, "secret").await?;
        for message in client.simple_query("SELECT one zwei größe").await? {
            match message {
                SimpleQueryMessage::Row(row) => println!("{:?}", row.get("value")),
                SimpleQueryMessage::CommandComplete(count) => println!("{count} rows"),
                _ => println!("columns"),
            }
        }
        let statement = client.prepare("SELECT $1 + $2").await?;
        println!("{:?} {}", statement.params(), statement.columns()[0].type_());
        let sums = (0..10_i32).map(|number| {
            let (client, statement) = (&client, &statement);
            async move { client.query_one(statement, &[&number, &1000]).await?.try_get::<_, i32>(0) }
        });
        for sum in sums {
            print!("{} ", sum.await?);
        }
        println!(
            "{:?}",
            client.query_one(&statement, &[&"text", &1]).await.map(|_| ()).map_err(|error| error.to_string())
        );
        let failed = client.batch_execute("INSERT").await;
        println!("{:?}", failed.map_err(|error| error.code().map(|code| code.code().to_owned())));
        let refused = connect(address, "wrong").await.map(|_| ());
        println!(
            "{:?}",
            refused.map_err(|error| error.as_db_error().map(|error| error.message().to_owned()))
        );
        Ok(())
    })
}
