//! An asynchronous runtime: timers, streams, datagrams, files and channels.

use ::async_std::channel;
use ::async_std::fs;
use ::async_std::io::{BufReader, prelude::*};
use ::async_std::net::{TcpListener, TcpStream, UdpSocket};
use ::async_std::prelude::*;
use ::async_std::task;
use std::time::Duration;

async fn lines() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = task::spawn(async move {
        let (stream, _) = listener.accept().await?;
        let mut lines = BufReader::new(&stream).lines();
        let mut writer = &stream;
        while let Some(line) = lines.next().await {
            writer.write_all(format!("{}\n", line?.to_uppercase()).as_bytes()).await?;
        }
        Ok::<_, std::io::Error>(())
    });
    let mut client = TcpStream::connect(address).await?;
    for number in 0..100 {
        client.write_all(format!("line {number} größe\n").as_bytes()).await?;
    }
    client.shutdown(std::net::Shutdown::Write)?;
    let mut text = String::new();
    client.read_to_string(&mut text).await?;
    println!("{} {:?}", text.len(), text.lines().last());
    server.await?;
    println!("{}", TcpStream::connect(address).await.unwrap_err().kind());
    Ok(())
}

async fn datagrams() -> std::io::Result<()> {
    let (one, two) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    let mut bytes = [0; 16];
    let nothing = two.recv(&mut bytes).timeout(Duration::from_millis(10)).await;
    println!("{}", nothing.is_err());
    one.send_to(b"datagram", two.local_addr()?).await?;
    println!("{}", two.recv(&mut bytes).await?);
    Ok(())
}

async fn files() -> std::io::Result<()> {
    let folder = std::env::temp_dir().join(format!("async-std-{}", std::process::id()));
    fs::create_dir(&folder).await?;
    let path = folder.join("file");
    fs::write(&path, "one\ntwo\n").await?;
    let mut file = fs::OpenOptions::new().append(true).open(&path).await?;
    file.write_all(b"three\n").await?;
    file.sync_all().await?;
    let lines = BufReader::new(fs::File::open(&path).await?).lines();
    println!("{:?}", lines.map(|line| line.unwrap_or_default()).collect::<Vec<_>>().await);
    println!("{} {:?}", fs::metadata(&path).await?.len(), fs::read_dir(&folder).await?.count().await);
    fs::remove_dir_all(&folder).await
}

async fn channels() {
    let (sender, receiver) = channel::bounded(4);
    for task in 0..8_u32 {
        let sender = sender.clone();
        task::spawn(async move {
            for number in 0..100 {
                task::yield_now().await;
                sender.send(task * 100 + number).await.unwrap();
            }
        });
    }
    drop(sender);
    println!("{}", receiver.fold(0, |sum, number| sum + number).await);
}

pub fn run() -> crate_uses::Result {
    task::block_on(async {
        lines().await?;
        datagrams().await?;
        files().await?;
        channels().await;
        let slow = async {
            task::sleep(Duration::from_millis(50)).await;
            "slow"
        };
        let fast = async {
            task::sleep(Duration::from_millis(5)).await;
            "fast"
        };
        println!("{}", slow.race(fast).await);
        Ok(())
    })
}
