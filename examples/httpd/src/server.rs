//! Takes connections and gives each a thread.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use crate::connection::{self, End};
use crate::places::{Place, Places};
use crate::settings::Settings;

/// What a connection's thread needs, with much to spare.
const STACK: usize = 128 << 10;

/// How long nobody is let in after that has failed, for want of memory or descriptors.
const PAUSE: Duration = Duration::from_millis(20);

/// Listens at all addresses of this machine: of both versions, or of the older one where there is no other.
pub(crate) fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
        .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// Serves until a client wants the program to end.
pub(crate) fn serve(listener: TcpListener, settings: Settings) {
    let (exit, wanted) = mpsc::channel();
    // The threads live as long as the program.
    let places: &Places = Box::leak(Box::new(Places::new(settings.connections)));
    thread::spawn(move || {
        loop {
            let place = places.take();
            match listener.accept() {
                Ok((stream, _)) => start(stream, place, places, &settings, &exit),
                Err(_) => thread::sleep(PAUSE),
            }
        }
    });
    // It cannot fail: the thread above keeps a sender for ever.
    let _: Result<(), _> = wanted.recv();
}

/// Serves a connection in a thread of its own, or drops it if there can be none.
fn start(
    stream: TcpStream,
    place: Place<'static>,
    places: &'static Places,
    settings: &Settings,
    exit: &Sender<()>,
) {
    let (limits, exit) = (settings.limits, exit.clone());
    let work = move || {
        // A client that is gone is no concern of anybody else's.
        if let Ok(End::Exit) = connection::serve(&stream, &limits, || places.are_taken()) {
            let _: Result<(), _> = exit.send(());
        }
        drop((stream, place));
    };
    if thread::Builder::new().stack_size(STACK).spawn(work).is_err() {
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::thread;

    use super::{listen, serve};
    use crate::settings::Settings;

    fn ask(address: SocketAddr, path: &str) -> String {
        let mut client = TcpStream::connect(("127.0.0.1", address.port())).unwrap();
        write!(client, "GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn many_clients_share_few_places() {
        let listener = listen(0).unwrap();
        let address = listener.local_addr().unwrap();
        let settings = Settings { connections: 3, ..Settings::default() };
        let server = thread::spawn(move || serve(listener, settings));
        thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(move || assert!(ask(address, "/bytes/1000").ends_with(&"x".repeat(1000))));
            }
        });
        assert!(ask(address, "/exit").ends_with("goodbye\n"));
        server.join().unwrap();
    }
}
