//! Tasks, timers, locks, channels, files and sockets.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Mutex, Semaphore, broadcast, mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{interval, sleep, timeout};
use tokio::{fs, select, spawn};

pub fn run() -> crate_uses::Result {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        tasks().await?;
        sockets().await?;
        files().await
    })
}

async fn tasks() -> crate_uses::Result {
    let (sum, semaphore) = (Arc::new(Mutex::new(0)), Arc::new(Semaphore::new(2)));
    let mut set = JoinSet::new();
    for number in 0..100_u64 {
        let (sum, semaphore) = (sum.clone(), semaphore.clone());
        set.spawn(async move {
            let _permit = semaphore.acquire().await;
            tokio::task::yield_now().await;
            *sum.lock().await += number;
        });
    }
    while let Some(result) = set.join_next().await {
        result?;
    }
    println!("{} {}", sum.lock().await, spawn_blocking(|| (1..=20_u64).product::<u64>()).await?);
    println!("{}", spawn(async { panic!("a task") }).await.is_err_and(|error| error.is_panic()));
    println!("{:?}", timeout(Duration::from_millis(5), sleep(Duration::from_secs(100))).await.is_err());
    let (sender, mut receiver) = mpsc::channel(1);
    let (news, mut listener) = broadcast::channel(8);
    let (value, watcher) = watch::channel(0);
    spawn(async move {
        let mut ticks = interval(Duration::from_millis(1));
        for number in 0..10 {
            ticks.tick().await;
            let _ = (sender.send(number).await, news.send(number), value.send(number));
        }
    });
    let mut received = Vec::new();
    loop {
        select! {
            biased;
            Some(number) = receiver.recv() => received.push(number),
            else => break,
        }
    }
    println!("{received:?} {:?} {:?}", *watcher.borrow(), listener.recv().await.is_err());
    Ok(())
}

async fn sockets() -> crate_uses::Result {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            spawn(async move {
                let (read, mut write) = stream.into_split();
                let mut lines = BufReader::new(read).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    let _ = write.write_all(format!("{}\n", line.to_uppercase()).as_bytes()).await;
                }
            });
        }
    });
    for number in 0..3 {
        let mut stream = TcpStream::connect(address).await?;
        stream.write_all(format!("first {number}\nsecond").as_bytes()).await?;
        stream.shutdown().await?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await?;
        println!("{text:?}");
    }
    let (one, other) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    one.send_to(b"datagram", other.local_addr()?).await?;
    let mut buffer = [0; 64];
    let (length, from) = other.recv_from(&mut buffer).await?;
    println!("{:?} {}", str::from_utf8(&buffer[..length])?, from == one.local_addr()?);
    Ok(())
}

async fn files() -> crate_uses::Result {
    let folder = std::env::temp_dir().join(format!("crates-tokio-{}", std::process::id()));
    fs::create_dir_all(&folder).await?;
    fs::write(folder.join("file"), "some text").await?;
    println!("{:?}", fs::read_to_string(folder.join("file")).await?);
    println!("{:?}", fs::read(folder.join("none")).await.map_err(|error| error.kind()));
    fs::remove_dir_all(&folder).await?;
    Ok(())
}
