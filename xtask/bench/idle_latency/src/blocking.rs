//! Client and server with blocking calls of std. The server has a thread for each connection.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use crate::REQUEST;
use crate::times::Times;

/// Measures requests one after the other. Connections stay open until the end.
pub(crate) fn measure(address: SocketAddr, count: usize) -> io::Result<Times> {
    let mut open = Vec::with_capacity(count);
    let times = (0..count).map(|_| {
        let (stream, time) = request(address)?;
        open.push(stream);
        Ok(time)
    });
    times.collect::<io::Result<_>>().map(Times::new)
}

fn request(address: SocketAddr) -> io::Result<(TcpStream, Duration)> {
    let mut stream = TcpStream::connect(address)?;
    let start = Instant::now();
    stream.write_all(&REQUEST)?;
    stream.read_exact(&mut REQUEST.clone())?;
    Ok((stream, start.elapsed()))
}

/// Answers requests.
pub(crate) fn serve(listener: &TcpListener) {
    for mut stream in listener.incoming().flatten() {
        thread::spawn(move || {
            let mut bytes = REQUEST;
            // The loop ends with the connection.
            while stream.read_exact(&mut bytes).and_then(|()| stream.write_all(&bytes)).is_ok() {}
        });
    }
}
