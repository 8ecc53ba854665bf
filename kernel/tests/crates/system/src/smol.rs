//! An asynchronous runtime: timers, sockets and files.

use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::{TcpListener, TcpStream, UdpSocket};
use smol::stream::StreamExt;
use std::time::{Duration, Instant};

pub fn run() -> crate_uses::Result {
    smol::block_on(async {
        timers().await;
        echo().await.unwrap();
        datagrams().await.unwrap();
        files().await.unwrap();
        let process = smol::process::Command::new("/no/such/program").status().await;
        println!("process starts {}", process.is_ok());
    });
    Ok(())
}

async fn timers() {
    let start = Instant::now();
    let slow = smol::spawn(async { smol::Timer::after(Duration::from_millis(60)).await });
    let fast = smol::Timer::after(Duration::from_millis(20));
    fast.await;
    assert!(start.elapsed() >= Duration::from_millis(20));
    slow.await;
    assert!(start.elapsed() >= Duration::from_millis(60));
    let ticks = smol::Timer::interval(Duration::from_millis(5)).take(4).count().await;
    println!("{ticks} ticks");
    let never = smol::future::or(async { smol::future::pending::<&str>().await }, async {
        smol::Timer::after(Duration::from_millis(5)).await;
        "timeout"
    });
    println!("{}", never.await);
}

async fn echo() -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let server = smol::spawn(async move {
        let mut incoming = listener.incoming().take(8);
        let mut tasks = Vec::new();
        while let Some(stream) = incoming.next().await {
            let mut stream = stream.unwrap();
            tasks.push(smol::spawn(async move {
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).await.unwrap();
                stream.write_all(&bytes).await.unwrap();
                bytes.len()
            }));
        }
        let mut sum = 0;
        for task in tasks {
            sum += task.await;
        }
        sum
    });
    let clients: Vec<_> = (0..8usize)
        .map(|index| {
            smol::spawn(async move {
                let mut stream = TcpStream::connect(address).await.unwrap();
                stream.write_all(&vec![index as u8; 1000 * (index + 1)]).await.unwrap();
                stream.shutdown(std::net::Shutdown::Write).unwrap();
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).await.unwrap();
                assert!(bytes.iter().all(|byte| usize::from(*byte) == index));
                bytes.len()
            })
        })
        .collect();
    for client in clients {
        println!("echo {}", client.await);
    }
    println!("sum {}", server.await);
    println!("{}", TcpStream::connect(address).await.unwrap_err().kind());
    Ok(())
}

async fn datagrams() -> std::io::Result<()> {
    let (one, two) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    one.send_to(b"datagram", two.local_addr()?).await?;
    let mut bytes = [0; 16];
    let (count, from) = two.recv_from(&mut bytes).await?;
    println!("{count} {}", from == one.local_addr()?);
    Ok(())
}

async fn files() -> std::io::Result<()> {
    let folder = std::env::temp_dir().join(format!("smol-use-{}", std::process::id()));
    smol::fs::create_dir(&folder).await?;
    for index in 0..5 {
        let mut file = smol::fs::File::create(folder.join(format!("file{index}"))).await?;
        file.write_all(format!("content {index}").as_bytes()).await?;
        file.sync_all().await?;
    }
    let mut entries = smol::fs::read_dir(&folder).await?;
    let mut names = Vec::new();
    while let Some(entry) = entries.try_next().await? {
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    println!("{names:?}");
    println!("{}", smol::fs::read_to_string(folder.join("file3")).await?);
    smol::fs::remove_dir_all(&folder).await?;
    let sum: u64 = smol::unblock(|| (1..=100u64).sum()).await;
    println!("{sum}");
    Ok(())
}
