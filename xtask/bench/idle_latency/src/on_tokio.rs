//! Client and server with tasks on tokio's multi-threaded runtime.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::REQUEST;
use crate::times::Times;

/// Measures requests one after the other. Connections stay open until the end.
pub(crate) fn measure(address: SocketAddr, count: usize) -> io::Result<Times> {
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        let (mut open, mut times) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for _ in 0..count {
            let (stream, time) = runtime.spawn(request(address)).await??;
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
    let served = Runtime::new().and_then(|runtime| runtime.block_on(accept(listener)));
    if let Err(error) = served {
        eprintln!("tokio: {error}");
    }
}

async fn accept(listener: TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (mut stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            let mut bytes = REQUEST;
            // The loop ends with the connection.
            while stream.read_exact(&mut bytes).await.is_ok() && stream.write_all(&bytes).await.is_ok() {}
        });
    }
}
