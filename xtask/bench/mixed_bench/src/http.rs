//! An HTTP/1.1 server and its client, over one connection of the loopback interface, which stays open.

use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

/// A request, as a client of a microservice sends it.
const REQUEST: &[u8] =
    b"GET /hello HTTP/1.1\r\nhost: localhost\r\nuser-agent: mixed_bench\r\naccept: */*\r\n\r\n";

const BODY: &str = "Hello, world!\n";

/// A client. The server ends when the client is dropped.
#[derive(Debug)]
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    /// Starts a server for one connection in a new thread, and connects to it.
    pub(crate) fn with_server() -> io::Result<(Self, JoinHandle<io::Result<()>>)> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let server = thread::spawn(move || serve(listener.accept()?.0));
        let connection = TcpStream::connect(address)?;
        connection.set_nodelay(true)?;
        Ok((Self(BufReader::new(connection)), server))
    }

    /// Gets the greeting.
    ///
    /// # Errors
    ///
    /// Fails with `InvalidData` if the server does not answer with the greeting.
    pub(crate) fn get(&mut self) -> io::Result<()> {
        self.0.get_mut().write_all(REQUEST)?;
        let head = read_head(&mut self.0)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let length = header(&head, "content-length").and_then(|value| value.parse().ok());
        let mut body = vec![0; length.ok_or(io::ErrorKind::InvalidData)?];
        self.0.read_exact(&mut body)?;
        let is_greeting = head.starts_with("HTTP/1.1 200 ") && body == BODY.as_bytes();
        if is_greeting { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
    }
}

/// Answers the requests of a connection until its client closes it.
fn serve(connection: TcpStream) -> io::Result<()> {
    connection.set_nodelay(true)?;
    let mut connection = BufReader::new(connection);
    while let Some(head) = read_head(&mut connection)? {
        let (status, body) =
            if head.starts_with("GET /hello ") { ("200 OK", BODY) } else { ("404 Not Found", "") };
        let length = body.len();
        let response = format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        connection.get_mut().write_all(response.as_bytes())?;
    }
    Ok(())
}

/// Reads the first line and the headers of a message. Returns `None` at the end of the connection.
fn read_head(connection: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if connection.read_line(&mut head)? == 0 {
            return if head.is_empty() { Ok(None) } else { Err(io::ErrorKind::UnexpectedEof.into()) };
        }
    }
    Ok(Some(head))
}

/// Returns the value of a header. `name` must be in lower case.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut headers = head.lines().skip(1).filter_map(|line| line.split_once(':'));
    headers.find(|header| header.0.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}
