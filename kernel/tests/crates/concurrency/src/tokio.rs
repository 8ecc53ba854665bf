//! tokio, and crates for it.

use std::sync::Arc;
use std::time::Duration;

use futures::SinkExt;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::sync::{Mutex, Semaphore, broadcast, mpsc, watch};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{interval, sleep, timeout};
use tokio::{fs, select, spawn};
use tokio_stream::StreamMap;
use tokio_stream::wrappers::{IntervalStream, ReceiverStream, WatchStream};
use tokio_util::bytes::Bytes;
use tokio_util::codec::{Framed, FramedRead, LengthDelimitedCodec, LinesCodec};
use tokio_util::sync::CancellationToken;

/// Tasks, timers, locks, channels, files and sockets.
pub fn tokio() -> crate_uses::Result {
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

/// Streams of tokio's channels and timers.
pub fn tokio_stream() -> crate_uses::Result {
    use tokio_stream::StreamExt;

    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
        let (sender, receiver) = mpsc::channel(4);
        tokio::spawn(async move {
            for number in 0..20 {
                let _ = sender.send(number).await;
            }
        });
        let even = ReceiverStream::new(receiver).filter(|number| number % 2 == 0).map(|number| number * 10);
        println!("{:?}", even.collect::<Vec<_>>().await);
        let ticks = IntervalStream::new(tokio::time::interval(Duration::from_millis(1)));
        println!("{}", ticks.take(5).fold(0, |count, _| count + 1).await);
        let mut map = StreamMap::new();
        map.insert("a", tokio_stream::iter(0..3));
        map.insert("b", tokio_stream::iter(5..6));
        let mut all: Vec<_> = map.collect().await;
        all.sort();
        println!("{all:?}");
        let slow = tokio_stream::pending::<u8>().timeout(Duration::from_millis(2));
        tokio::pin!(slow);
        println!("{:?}", slow.next().await.map(|item| item.is_err()));
        let (sender, receiver) = watch::channel("first");
        let mut values = WatchStream::new(receiver);
        println!("{:?}", values.next().await);
        sender.send("second")?;
        drop(sender);
        println!("{:?} {:?}", values.next().await, values.next().await);
        Ok(())
    })
}

/// Frames on a stream of bytes, and cancellation.
pub fn tokio_util() -> crate_uses::Result {
    use futures::StreamExt;

    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?.block_on(async {
        let (client, server) = tokio::io::duplex(16);
        let echo = tokio::spawn(async move {
            let mut frames = Framed::new(server, LengthDelimitedCodec::new());
            while let Some(Ok(frame)) = frames.next().await {
                frames.send(frame.iter().rev().copied().collect::<Bytes>()).await?;
            }
            Ok::<_, std::io::Error>(())
        });
        let mut frames = Framed::new(client, LengthDelimitedCodec::new());
        for text in ["", "short", &"a long frame ".repeat(50)] {
            frames.send(Bytes::from(text.to_owned())).await?;
            let reply = frames.next().await.ok_or("closed")??;
            println!("{} {}", reply.len(), crate_uses::digest(&reply));
        }
        drop(frames);
        echo.await??;
        let (mut writer, reader) = tokio::io::duplex(64);
        writer.write_all(b"one\r\ntwo two two two\nthree").await?;
        drop(writer);
        let lines = FramedRead::new(reader, LinesCodec::new_with_max_length(10));
        println!("{:?}", lines.map(|line| line.map_err(|error| error.to_string())).collect::<Vec<_>>().await);
        let token = CancellationToken::new();
        let child = token.child_token();
        let task = tokio::spawn(async move { child.run_until_cancelled(std::future::pending::<()>()).await });
        token.cancel();
        println!("{:?}", task.await?);
        Ok(())
    })
}
