//! Accepts connections, each of which gets a thread of its own.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};
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

/// Serves until a client requests `/exit`.
pub(crate) fn serve(listener: TcpListener, settings: Settings) {
    let (exit, exit_requested) = mpsc::channel();
    // Leaked, since the threads live as long as the program.
    let semaphore: &Semaphore = Box::leak(Box::new(Semaphore::new(settings.connections)));
    thread::spawn(move || {
        loop {
            let permit = semaphore.acquire();
            match listener.accept() {
                Ok((stream, _)) => spawn_connection(stream, permit, semaphore, &settings, &exit),
                Err(_) => thread::sleep(RETRY_DELAY),
            }
        }
    });
    // Cannot fail: the thread above keeps a sender.
    let _: Result<(), _> = exit_requested.recv();
}

/// Serves a connection in a new thread, or drops it if the thread cannot be started.
fn spawn_connection(
    stream: TcpStream,
    permit: Permit<'static>,
    semaphore: &'static Semaphore,
    settings: &Settings,
    exit: &Sender<()>,
) {
    let (limits, exit) = (settings.limits, exit.clone());
    let serve_connection = move || {
        // A failed connection does not affect other clients.
        if let Ok(ConnectionEnd::ExitRequested) =
            connection::serve(&stream, &limits, || semaphore.is_exhausted())
        {
            let _: Result<(), _> = exit.send(());
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

    use super::{listen, serve};
    use crate::settings::Settings;

    fn get(address: SocketAddr, path: &str) -> String {
        let mut client = TcpStream::connect(("127.0.0.1", address.port())).unwrap();
        write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
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
