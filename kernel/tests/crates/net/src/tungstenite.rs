//! A WebSocket server and a client.

use std::net::{TcpListener, TcpStream};
use std::thread;

use tungstenite::handshake::server::{Request, Response};
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Error, Message, accept_hdr, client};

pub fn run() -> crate_uses::Result {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let server = thread::spawn(move || -> Result<usize, Box<dyn std::error::Error + Send + Sync>> {
        let check = |request: &Request, mut response: Response| {
            response.headers_mut().insert("x-path", request.uri().path().parse().expect("a header"));
            Ok(response)
        };
        let mut socket = accept_hdr(listener.accept()?.0, check).map_err(|error| error.to_string())?;
        let mut count = 0;
        loop {
            match socket.read() {
                Ok(Message::Text(text)) => socket.send(Message::text(text.to_uppercase()))?,
                Ok(Message::Binary(bytes)) => {
                    socket.send(Message::binary(bytes.iter().rev().copied().collect::<Vec<_>>()))?
                }
                Ok(_) => {}
                Err(Error::ConnectionClosed) => return Ok(count),
                Err(error) => return Err(error.into()),
            }
            count += 1;
        }
    });
    let (mut socket, response) = client(format!("ws://{address}/chat"), TcpStream::connect(address)?)
        .map_err(|error| error.to_string())?;
    println!("{} {:?}", response.status(), response.headers().get("x-path"));
    socket.send(Message::text("größe"))?;
    println!("{:?}", socket.read()?);
    socket.send(Message::binary(vec![7; 100_000]))?;
    println!("{}", socket.read()?.len());
    socket.send(Message::Ping(vec![1, 2].into()))?;
    println!("{:?}", socket.read()?);
    socket.close(Some(CloseFrame { code: CloseCode::Normal, reason: "done".into() }))?;
    println!("{:?}", socket.read()?);
    println!("{}", matches!(socket.read(), Err(Error::ConnectionClosed)));
    println!("{}", server.join().map_err(|_| "panic")?? > 2);
    Ok(())
}
