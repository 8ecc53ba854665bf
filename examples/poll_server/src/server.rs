//! The event loop.

use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::client::{Client, ClientState};

/// Token of the listener. Tokens of clients are the numbers after it.
const LISTENER: Token = Token(0);

/// Maximum number of events per poll.
const MAX_EVENTS: usize = 256;

/// A server and its clients.
#[derive(Debug)]
pub(crate) struct Server {
    poll: Poll,
    listener: TcpListener,
    clients: HashMap<Token, Client<TcpStream>>,
    /// Number of clients accepted so far.
    count: usize,
}

impl Server {
    /// Listens on all local addresses: IPv6 and IPv4, or IPv4 alone on a host without IPv6.
    pub(crate) fn new(port: u16) -> io::Result<Self> {
        let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        let any_v4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
        let mut listener = TcpListener::bind(any).or_else(|_| TcpListener::bind(any_v4))?;
        let poll = Poll::new()?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self { poll, listener, clients: HashMap::new(), count: 0 })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until a client requests the exit. Returns the number of clients.
    pub(crate) fn run(&mut self) -> io::Result<usize> {
        let mut events = Events::with_capacity(MAX_EVENTS);
        loop {
            match self.poll.poll(&mut events, None) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                result => result?,
            }
            if self.handle(&events)? {
                return Ok(self.count);
            }
        }
    }

    /// Handles events. Returns true if a client requested the exit.
    fn handle(&mut self, events: &Events) -> io::Result<bool> {
        for event in events {
            let exit = match event.token() {
                LISTENER => self.accept()?,
                token => self.advance(token),
            };
            if exit {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Accepts all pending connections. Returns true if a client requested the exit.
    fn accept(&mut self) -> io::Result<bool> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                // The client closed the connection before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            self.count += 1;
            let token = Token(self.count);
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll.registry().register(&mut stream, token, interest)?;
            self.clients.insert(token, Client::new(stream));
            if self.advance(token) {
                return Ok(true);
            }
        }
    }

    /// Reads from and writes to a client. Returns true if the client requested the exit.
    fn advance(&mut self, token: Token) -> bool {
        let Some(client) = self.clients.get_mut(&token) else { return false };
        // A failed connection counts as closed.
        let state = client.advance().unwrap_or(ClientState::Closed);
        if state == ClientState::Closed
            && let Some(mut client) = self.clients.remove(&token)
            && let Err(error) = self.poll.registry().deregister(&mut client.stream)
        {
            eprintln!("a client's events cannot be switched off: {error}");
        }
        state == ClientState::Exit
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Shutdown, SocketAddr, TcpStream};
    use std::thread;

    use super::Server;

    fn exchange(address: SocketAddr, seed: u8) {
        let mut stream = TcpStream::connect(("127.0.0.1", address.port())).unwrap();
        for round in 0..50_u8 {
            stream.write_all(&[seed, round]).unwrap();
            let mut answer = [0; 2];
            stream.read_exact(&mut answer).unwrap();
            assert_eq!(answer, [seed, round]);
        }
        let mut reader = stream.try_clone().unwrap();
        let writer = thread::spawn(move || {
            stream.write_all(&vec![seed; 2 << 20]).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        let mut echo = Vec::new();
        reader.read_to_end(&mut echo).unwrap();
        writer.join().unwrap();
        assert!(echo.len() == 2 << 20 && echo.iter().all(|byte| *byte == seed));
    }

    #[test]
    fn many_clients_are_served_by_one_thread() {
        let mut server = Server::new(0).unwrap();
        let address = server.address().unwrap();
        let server = thread::spawn(move || server.run().unwrap());
        // None of these seeds is the byte of a line feed.
        thread::scope(|scope| (60..80).for_each(|seed| drop(scope.spawn(move || exchange(address, seed)))));
        let mut last = TcpStream::connect(("127.0.0.1", address.port())).unwrap();
        last.write_all(b"exit\n").unwrap();
        let mut echo = String::new();
        last.read_to_string(&mut echo).unwrap();
        assert_eq!(echo, "exit\n");
        assert_eq!(server.join().unwrap(), 21);
    }
}
