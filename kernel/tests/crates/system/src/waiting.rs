//! Waiting for sockets and times, and combinators of what waits.

use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_io::{Async, Timer, block_on};
use futures_lite::io::{AsyncBufReadExt, AsyncReadExt, BufReader, Cursor};
use futures_lite::{StreamExt, future, stream};
use polling::{Events, Poller};

/// Timers and non-blocking I/O.
pub fn async_io() -> crate_uses::Result {
    block_on(async {
        let start = Instant::now();
        Timer::after(Duration::from_millis(30)).await;
        println!("{}", start.elapsed() >= Duration::from_millis(30));
        let listener = Async::<TcpListener>::bind((Ipv4Addr::LOCALHOST, 0))?;
        let stream = Async::<TcpStream>::connect(listener.get_ref().local_addr()?).await?;
        let (peer, address) = listener.accept().await?;
        println!("{}", address == stream.get_ref().local_addr()?);
        peer.writable().await?;
        drop(peer);
        stream.readable().await?;
        println!("{}", stream.peek(&mut [0; 8]).await?);
        let socket = Async::<UdpSocket>::bind((Ipv4Addr::LOCALHOST, 0))?;
        socket.send_to(b"datagram", socket.get_ref().local_addr()?).await?;
        println!("{}", socket.recv(&mut [0; 16]).await?);
        Ok(())
    })
}

/// Combinators of futures, streams and asynchronous I/O.
pub fn futures_lite() -> crate_uses::Result {
    future::block_on(async {
        let numbers = stream::iter(1..=10).filter(|number| number % 3 != 0).map(|number| number * number);
        println!("{:?}", numbers.collect::<Vec<_>>().await);
        println!("{:?}", future::zip(async { 1 }, async { "two" }).await);
        println!("{}", future::or(future::pending(), async { "ready" }).await);
        let mut lines = BufReader::with_capacity(4, Cursor::new("one\ntwo\nthree")).lines();
        while let Some(line) = lines.try_next().await? {
            println!("{line}");
        }
        let mut text = String::new();
        Cursor::new("a").chain(Cursor::new("b")).read_to_string(&mut text).await?;
        println!("{text}");
        Ok(())
    })
}

/// Waiting with a timeout, and notifications. Sockets are waited for by async-io.
pub fn polling() -> crate_uses::Result {
    let poller = Arc::new(Poller::new()?);
    let mut events = Events::new();
    let start = Instant::now();
    let timeout = Duration::from_millis(20);
    println!("{} {}", poller.wait(&mut events, Some(timeout))?, start.elapsed() >= timeout);
    for _ in 0..10 {
        poller.notify()?;
        poller.notify()?;
        println!("{}", poller.wait(&mut events, None)?);
    }
    let notifier = Arc::clone(&poller);
    let thread = std::thread::spawn(move || (0..1000).try_for_each(|_| notifier.notify()));
    while !thread.is_finished() {
        poller.wait(&mut events, Some(timeout))?;
    }
    thread.join().unwrap()?;
    println!("{}", events.is_empty());
    Ok(())
}
