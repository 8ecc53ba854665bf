//! A small HTTP server of std, for clients.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::{io, thread};

use ::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// Answers each request with its first line and its body, in JSON. Returns the address; the thread ends with
/// the program.
pub fn start() -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(answer(stream))));
    Ok(address)
}

/// The same, by TLS.
pub fn start_tls(config: ServerConfig) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let config = Arc::new(config);
    thread::spawn(move || {
        listener.incoming().flatten().for_each(|stream| drop(answer_tls(stream, config.clone())))
    });
    Ok(address)
}

fn answer_tls(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<()> {
    let connection = ServerConnection::new(config).map_err(io::Error::other)?;
    let mut stream = StreamOwned::new(connection, stream);
    answer(&mut stream)?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn answer(stream: impl Read + Write) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut first, mut length) = (String::new(), 0);
    reader.read_line(&mut first)?;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let line = line.trim_end().to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or(0);
        }
        if line.is_empty() {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    let status = if first.contains("/missing") { "404 Not Found" } else { "200 OK" };
    let text =
        format!("{{\"request\":\"{}\",\"body\":{}}}", first.trim_end(), String::from_utf8_lossy(&body).len());
    write!(
        reader.get_mut(),
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nX-Name: value\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{text}",
        text.len()
    )
}
