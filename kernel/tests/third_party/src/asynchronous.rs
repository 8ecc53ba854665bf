//! tokio with all features: a runtime of several threads, sockets, timers, files, channels.

use std::error::Error;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use tokio::fs;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UdpSocket, lookup_host};
use tokio::runtime::Builder;
use tokio::sync::{Semaphore, broadcast, mpsc, watch};
use tokio::task::{self, JoinSet};
use tokio::time;

use crate::{TestResult, digest, ensure, numbers};

/// A result that may cross tasks.
type TaskResult<T> = Result<T, Box<dyn Error + Send + Sync>>;

const THREADS: usize = 3;

/// Number of connections at a time.
const CONNECTIONS: u64 = 40;

/// Bytes sent over each connection, more than its buffers hold.
const LENGTH: usize = 300_000;

pub(crate) fn tokio() -> TestResult {
    let runtime = Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    let result: TaskResult<String> = runtime.block_on(async {
        times().await?;
        Ok(digest(&(tcp().await?, udp().await?, files().await?, channels().await?)))
    });
    result.map_err(|error| error as Box<dyn Error>)
}

/// Echoes what many clients send at a time.
async fn tcp() -> TaskResult<Vec<u64>> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind((Ipv4Addr::LOCALHOST, 0).into())?;
    let listener = socket.listen(1024)?;
    let address = listener.local_addr()?;
    let server = tokio::spawn(serve(listener));
    let mut clients = JoinSet::new();
    for seed in 0..CONNECTIONS {
        clients.spawn(async move {
            let mut addresses = lookup_host(("localhost", address.port())).await?;
            let address = addresses.find(std::net::SocketAddr::is_ipv4).ok_or("no address")?;
            client(TcpStream::connect(address).await?, seed).await
        });
    }
    let mut sums = Vec::new();
    while let Some(sum) = clients.join_next().await {
        sums.push(sum??);
    }
    server.abort();
    ensure(server.await.is_err_and(|error| error.is_cancelled()), || "the server was not cancelled".into())?;
    sums.sort_unstable();
    Ok(sums)
}

async fn serve(listener: TcpListener) -> io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let (mut read, mut write) = stream.split();
            tokio::io::copy(&mut read, &mut write).await?;
            write.shutdown().await
        });
    }
}

/// Sends numbers and returns the sum of the bytes that come back.
async fn client(stream: TcpStream, seed: u64) -> TaskResult<u64> {
    stream.set_nodelay(true)?;
    let sent: Vec<u8> = numbers(seed).map(|number| number.to_le_bytes()[1]).take(LENGTH).collect();
    let (mut read, mut write) = stream.into_split();
    let expected = sent.clone();
    let sender = tokio::spawn(async move {
        write.write_all(&sent).await?;
        write.shutdown().await
    });
    let mut received = Vec::new();
    read.read_to_end(&mut received).await?;
    sender.await??;
    ensure(received == expected, || format!("{} bytes came back", received.len()))?;
    Ok(received.into_iter().map(u64::from).sum())
}

/// Exchanges datagrams.
async fn udp() -> TaskResult<u64> {
    let (one, other) = (UdpSocket::bind("127.0.0.1:0").await?, UdpSocket::bind("127.0.0.1:0").await?);
    one.connect(other.local_addr()?).await?;
    let mut sum = 0;
    for number in 0..20_u64 {
        one.send(&number.to_le_bytes()).await?;
        let mut bytes = [0; 9];
        let (length, from) = other.recv_from(&mut bytes).await?;
        ensure(length == 8 && from == one.local_addr()?, || format!("{length} bytes from {from}"))?;
        sum += u64::from(bytes[0]);
    }
    Ok(sum)
}

/// Writes, lists, reads and removes files.
async fn files() -> TaskResult<Vec<String>> {
    let folder = tempfile::tempdir()?;
    for index in 0..10 {
        fs::write(folder.path().join(format!("file-{index}")), index.to_string()).await?;
    }
    let mut file = fs::OpenOptions::new().append(true).open(folder.path().join("file-3")).await?;
    file.write_all(b" and more").await?;
    file.sync_all().await?;
    fs::remove_file(folder.path().join("file-7")).await?;
    let mut found = Vec::new();
    let mut entries = fs::read_dir(folder.path()).await?;
    while let Some(entry) = entries.next_entry().await? {
        found.push(fs::read_to_string(entry.path()).await?);
    }
    found.sort_unstable();
    Ok(found)
}

/// Carries numbers between tasks and blocking threads.
async fn channels() -> TaskResult<(u64, u64, u64)> {
    let (to, mut from) = mpsc::channel(4);
    let permits = Arc::new(Semaphore::new(2));
    for number in 0..50_u64 {
        let (to, permits) = (to.clone(), Arc::clone(&permits));
        tokio::spawn(async move {
            let _permit = permits.acquire().await;
            to.send(number).await
        });
    }
    drop(to);
    let mut sum = 0;
    while let Some(number) = from.recv().await {
        sum += number;
    }
    let (all, mut one) = broadcast::channel(8);
    let mut other = all.subscribe();
    all.send(7)?;
    let both = one.recv().await? + other.recv().await?;
    let (tell, mut told) = watch::channel(0);
    let blocking = task::spawn_blocking(move || tell.send(9).is_ok());
    told.changed().await?;
    ensure(blocking.await?, || "the watcher is gone".into())?;
    let last = *told.borrow();
    Ok((sum, both, last))
}

/// Timers expire, in order. A future that is ready before its limit does not time out.
async fn times() -> TaskResult<()> {
    let never = time::timeout(Duration::from_millis(5), std::future::pending::<()>()).await;
    ensure(never.is_err(), || "a limit did not expire".into())?;
    let ready = time::timeout(Duration::from_secs(600), time::sleep(Duration::from_millis(1))).await;
    ensure(ready.is_ok(), || "a sleep took ten minutes".into())?;
    let mut interval = time::interval(Duration::from_millis(2));
    let start = interval.tick().await;
    let end = interval.tick().await;
    ensure(end >= start + Duration::from_millis(2), || "an interval was too short".into())?;
    Ok(())
}
