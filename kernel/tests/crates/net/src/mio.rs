//! Waits for several sockets and a waker.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);

pub fn run() -> crate_uses::Result {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(16);
    let mut listener = TcpListener::bind("127.0.0.1:0".parse()?)?;
    let address = listener.local_addr()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    // It is kept until the end: events of a waker that was dropped are lost.
    let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
    let last = waker.clone();
    let clients = thread::spawn(move || -> std::io::Result<Vec<String>> {
        let mut replies = Vec::new();
        for index in 0..5 {
            let mut stream = std::net::TcpStream::connect(address)?;
            stream.write_all("text ".repeat(index * 300).as_bytes())?;
            stream.shutdown(Shutdown::Write)?;
            let mut reply = String::new();
            stream.read_to_string(&mut reply)?;
            replies.push(reply);
        }
        last.wake()?;
        Ok(replies)
    });
    let mut connections: BTreeMap<Token, (TcpStream, usize)> = BTreeMap::new();
    let mut next = 2;
    'events: loop {
        poll.poll(&mut events, Some(Duration::from_secs(60)))?;
        crate_uses::ensure(!events.is_empty(), "no event for a minute")?;
        for event in &events {
            match event.token() {
                WAKER => break 'events,
                LISTENER => {
                    while let Ok((mut stream, _)) = listener.accept() {
                        poll.registry().register(&mut stream, Token(next), Interest::READABLE)?;
                        connections.insert(Token(next), (stream, 0));
                        next += 1;
                    }
                }
                token => {
                    let Some((stream, count)) = connections.get_mut(&token) else { continue };
                    let mut buffer = [0; 256];
                    let is_done = loop {
                        match stream.read(&mut buffer) {
                            Ok(0) => break true,
                            Ok(length) => *count += length,
                            Err(error) if error.kind() == ErrorKind::WouldBlock => break false,
                            Err(error) => return Err(error.into()),
                        }
                    };
                    if is_done {
                        write!(stream, "{count} bytes")?;
                        poll.registry().deregister(stream)?;
                        connections.remove(&token);
                    }
                }
            }
        }
    }
    println!("{:?} {}", clients.join().map_err(|_| "panic")??, connections.len());
    poll.poll(&mut events, Some(Duration::from_millis(2)))?;
    println!("{}", events.is_empty());
    Ok(())
}
