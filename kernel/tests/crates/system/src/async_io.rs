//! Timers and non-blocking I/O.

use async_io::{Async, Timer, block_on};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

pub fn run() -> crate_uses::Result {
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
