//! Accepts connections. Each connection has its own thread.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use crate::connection::{self, ConnectionEnd};
use crate::semaphore::{Permit, Semaphore};
use crate::settings::Settings;

/// Stack size of a connection's thread, in bytes.
const STACK_SIZE: usize = 128 << 10;

/// Delay before the next `accept` after a failed one, such as for lack of memory or descriptors.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Listens on all local addresses: IPv6 and IPv4, or IPv4 alone on a host without IPv6.
pub(crate) fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// Reason why the server ends.
#[derive(Clone, Copy, Debug)]
enum End {
    /// A client has requested `/exit`.
    Exit,
    /// The host has requested the program to end.
    Shutdown,
}

/// State that the threads of the server share.
#[derive(Debug)]
struct Server {
    settings: Settings,
    semaphore: Semaphore,
    /// True if the server is about to end: it does not keep connections alive, and accepts no more.
    is_draining: AtomicBool,
    /// Open connections, and closed ones that [`Self::register`] has not yet removed.
    connections: Mutex<Vec<Weak<TcpStream>>>,
}

impl Server {
    fn new(settings: Settings) -> Self {
        let semaphore = Semaphore::new(settings.connections);
        Self { settings, semaphore, is_draining: AtomicBool::new(false), connections: Mutex::default() }
    }

    fn is_draining(&self) -> bool {
        self.is_draining.load(Ordering::SeqCst)
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Weak<TcpStream>>> {
        // A panic while the lock is held leaves a valid list.
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a connection to the list. Removes closed connections when the list is full, so that adding takes
    /// constant time on average.
    fn register(&self, stream: &Arc<TcpStream>) {
        let mut connections = self.connections();
        if connections.len() == connections.capacity() {
            connections.retain(|stream| stream.strong_count() > 0);
        }
        connections.push(Arc::downgrade(stream));
    }

    /// Waits until all received requests are answered and all connections are closed.
    fn drain(&self) {
        self.is_draining.store(true, Ordering::SeqCst);
        // A connection that waits for a request now reads the end of the input.
        for stream in self.connections().iter().filter_map(Weak::upgrade) {
            // An error is ignored: the client may have closed the connection.
            let _: io::Result<()> = stream.shutdown(Shutdown::Read);
        }
        // The thread that accepts holds one permit, so all others are acquired.
        let _permits: Vec<_> = (1..self.settings.connections).map(|_| self.semaphore.acquire()).collect();
    }
}

/// Serves until a client requests `/exit`, or until the host requests the program's end.
pub(crate) fn serve(listener: TcpListener, settings: Settings) {
    let (sender, end) = mpsc::channel();
    // The server is leaked, because its threads live as long as the program.
    let server: &Server = Box::leak(Box::new(Server::new(settings)));
    let exit = sender.clone();
    thread::spawn(move || {
        while !server.is_draining() {
            let permit = server.semaphore.acquire();
            match listener.accept() {
                Ok((stream, _)) => spawn_connection(stream, permit, server, &exit),
                Err(_) => thread::sleep(RETRY_DELAY),
            }
        }
    });
    thread::spawn(move || {
        // If this thread cannot be started or cannot wait, only `/exit` ends the server.
        if hermit_sys::shutdown::wait().is_ok() {
            let _: Result<(), _> = sender.send(End::Shutdown);
        }
    });
    if let Ok(End::Shutdown) = end.recv() {
        server.drain();
    }
}

/// Serves a connection in a new thread, or drops it if the thread cannot be started.
fn spawn_connection(stream: TcpStream, permit: Permit<'static>, server: &'static Server, exit: &Sender<End>) {
    let (stream, exit) = (Arc::new(stream), exit.clone());
    server.register(&stream);
    if server.is_draining() {
        return;
    }
    let serve_connection = move || {
        let is_crowded = || server.is_draining() || server.semaphore.is_exhausted();
        // A failed connection does not affect other clients.
        if let Ok(ConnectionEnd::ExitRequested) =
            connection::serve(&stream, &server.settings.limits, is_crowded)
        {
            let _: Result<(), _> = exit.send(End::Exit);
        }
        drop((stream, permit));
    };
    if thread::Builder::new().stack_size(STACK_SIZE).spawn(serve_connection).is_err() {
        thread::sleep(RETRY_DELAY);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::thread;

    use super::{Server, listen, serve, spawn_connection};
    use crate::settings::Settings;

    fn get(address: SocketAddr, path: &str) -> String {
        let mut client = TcpStream::connect(("127.0.0.1", address.port())).unwrap();
        write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn drain_answers_requests_and_closes_idle_connections() {
        let listener = listen(0).unwrap();
        let address = ("127.0.0.1", listener.local_addr().unwrap().port());
        let server: &Server =
            Box::leak(Box::new(Server::new(Settings { connections: 3, ..Settings::default() })));
        // The permit of the thread that accepts. This test takes the place of that thread.
        let accepting = server.semaphore.acquire();
        let (exit, _end) = std::sync::mpsc::channel();
        let connect = || {
            let client = TcpStream::connect(address).unwrap();
            spawn_connection(listener.accept().unwrap().0, server.semaphore.acquire(), server, &exit);
            client
        };
        let (mut idle, mut busy) = (connect(), connect());
        write!(busy, "GET /bytes/100000 HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        // When the response has begun, the request has arrived.
        busy.read_exact(&mut [0]).unwrap();
        server.drain();
        let mut text = Vec::new();
        busy.read_to_end(&mut text).unwrap();
        assert!(text.ends_with(&[b'x'; 100_000]));
        assert_eq!(idle.read(&mut [0]).unwrap(), 0);
        drop(accepting);
    }

    #[test]
    fn clients_wait_for_a_permit() {
        let listener = listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let settings = Settings { connections: 3, ..Settings::default() };
        let server = thread::spawn(move || serve(listener, settings));
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(move || assert!(get(address, "/bytes/1000").ends_with(&"x".repeat(1000))));
            }
        });
        assert!(get(address, "/exit").ends_with("goodbye\n"));
        server.join().unwrap();
    }
}
