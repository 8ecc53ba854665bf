//! The client, and what all servers are asked for.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use serde::{Deserialize, Serialize};

/// The JSON of the requests, and of their responses.
#[derive(Debug, Deserialize, Serialize)]
pub struct Point {
    x: i32,
    y: i32,
}

impl Point {
    pub fn mirrored(&self) -> Self {
        Self { x: self.y, y: self.x }
    }
}

/// Asks a server, which has the paths `/hello/NAME` and `/mirror`, and prints its responses.
pub fn ask(address: SocketAddr) -> io::Result<()> {
    exchange(address, "GET", "/hello/w%C3%B6rld", "")?;
    exchange(address, "POST", "/mirror", r#"{"x": 3, "y": -4}"#)?;
    exchange(address, "POST", "/mirror", r#"{"x": 3}"#)?;
    exchange(address, "GET", "/mirror", "")?;
    exchange(address, "GET", "/none", "")
}

/// Prints the status, the type of the body and the body; of an error, which says much, the status.
fn exchange(address: SocketAddr, method: &str, path: &str, body: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let headers = "Host: localhost\r\nConnection: close\r\nContent-Type: application/json";
    write!(stream, "{method} {path} HTTP/1.1\r\n{headers}\r\nContent-Length: {}\r\n\r\n{body}", body.len())?;
    let mut response = Vec::new();
    stream.read_to_end(&mut response)?;
    let response = String::from_utf8_lossy(&response);
    let (head, body) = response.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    let status = head.lines().next().unwrap_or_default();
    println!("{method} {path}: {status}");
    if status.contains(" 200 ") {
        let kind = head.lines().find(|line| line.to_lowercase().starts_with("content-type"));
        println!("  {}\n  {body}", kind.unwrap_or("no type"));
    }
    Ok(())
}
