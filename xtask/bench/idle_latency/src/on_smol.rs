//! Client and server with tasks on smol's global executor.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use smol::Async;
use smol::io::{AsyncReadExt, AsyncWriteExt};
use smol::net::TcpStream;

use crate::REQUEST;
use crate::times::Times;

/// Measures requests one after the other. Connections stay open until the end.
pub(crate) fn measure(address: SocketAddr, count: usize) -> io::Result<Times> {
    smol::block_on(async {
        let (mut open, mut times) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for _ in 0..count {
            let (stream, time) = smol::spawn(request(address)).await?;
            open.push(stream);
            times.push(time);
        }
        Ok(Times::new(times))
    })
}

async fn request(address: SocketAddr) -> io::Result<(TcpStream, Duration)> {
    let mut stream = TcpStream::connect(address).await?;
    let start = Instant::now();
    stream.write_all(&REQUEST).await?;
    stream.read_exact(&mut REQUEST.clone()).await?;
    Ok((stream, start.elapsed()))
}

/// Answers requests.
pub(crate) fn serve(listener: TcpListener) {
    let served = Async::new(listener).and_then(|listener| smol::block_on(accept(listener)));
    if let Err(error) = served {
        eprintln!("smol: {error}");
    }
}

async fn accept(listener: Async<TcpListener>) -> io::Result<()> {
    loop {
        let (mut stream, _) = listener.accept().await?;
        smol::spawn(async move {
            let mut bytes = REQUEST;
            // The loop ends with the connection.
            while stream.read_exact(&mut bytes).await.is_ok() && stream.write_all(&bytes).await.is_ok() {}
        })
        .detach();
    }
}
