//! The service: a thread per client, and one that removes expired values.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use crate::Store;

/// Maximum length of a request in bytes: a client cannot fill the memory with one line.
const MAX_REQUEST: u64 = 64 * 1024;

/// Time between two sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// State that the threads share.
#[derive(Debug, Default)]
pub struct Service {
    store: Mutex<Store>,
    /// Number of requests so far.
    pub requests: AtomicU64,
}

impl Service {
    /// The store, locked.
    ///
    /// # Panics
    ///
    /// If a thread has panicked while it held the lock.
    pub fn store(&self) -> MutexGuard<'_, Store> {
        self.store.lock().expect("a thread panicked while it changed the store")
    }

    /// Answers a request.
    fn answer(&self, request: &str) -> String {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let (mut store, now) = (self.store(), Instant::now());
        let done = |found: bool| if found { "OK" } else { "NONE" }.to_owned();
        let mut words = request.splitn(3, ' ');
        match (words.next().unwrap_or(""), words.next(), words.next()) {
            ("GET", Some(key), None) => {
                store.get(key, now).map_or_else(|| "NONE".to_owned(), |value| format!("VALUE {value}"))
            }
            ("SET", Some(key), Some(value)) => {
                store.set(key, value);
                "OK".to_owned()
            }
            ("DEL", Some(key), None) => done(store.remove(key, now)),
            ("EXPIRE", Some(key), Some(seconds)) => match after(now, seconds) {
                Some(at) => done(store.expire(key, at, now)),
                None => "ERROR no number of seconds".to_owned(),
            },
            _ => "ERROR GET KEY, SET KEY VALUE, DEL KEY or EXPIRE KEY SECONDS".to_owned(),
        }
    }
}

/// The instant some seconds after another one, if the text is a number that a clock can have.
fn after(now: Instant, seconds: &str) -> Option<Instant> {
    now.checked_add(Duration::from_secs(seconds.parse().ok()?))
}

/// Accepts clients for ever, each in a thread of its own.
pub fn serve(listener: &TcpListener, service: &'static Service) {
    for client in listener.incoming() {
        let spawned = client.and_then(|client| thread::Builder::new().spawn(move || talk(&client, service)));
        // Too many clients for the memory, or one that has gone already: the others are served.
        if let Err(error) = spawned {
            eprintln!("a client is lost: {error}");
        }
    }
}

/// Answers the requests of a client, a line each, until it closes the connection.
fn talk(client: &TcpStream, service: &Service) -> io::Result<()> {
    // Answers are small: without this, one waits until the client has acknowledged the one before.
    client.set_nodelay(true)?;
    let (mut input, mut output) = (BufReader::new(client), client);
    loop {
        let mut line = String::new();
        (&mut input).take(MAX_REQUEST).read_line(&mut line)?;
        let Some(request) = line.strip_suffix('\n') else { return Ok(()) };
        let answer = service.answer(request.trim_end()) + "\n";
        output.write_all(answer.as_bytes())?;
    }
}

/// Removes expired values for ever.
pub fn sweep(service: &Service) {
    loop {
        thread::sleep(SWEEP_INTERVAL);
        service.store().sweep(Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::thread;

    use super::{Service, serve};

    /// Starts a service at a free port of the loopback interface, sends it requests, a line each, and returns
    /// the answers.
    fn ask(requests: &str) -> Vec<String> {
        let service: &'static Service = Box::leak(Box::default());
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("no port is free");
        let address = listener.local_addr().expect("the listener has no address");
        thread::spawn(move || serve(&listener, service));
        let mut client = TcpStream::connect(address).expect("the service is not reachable");
        client.write_all(requests.as_bytes()).expect("the service has closed the connection");
        let lines = BufReader::new(client).lines().take(requests.lines().count());
        lines.collect::<Result<_, _>>().expect("the answers are not complete")
    }

    #[test]
    fn values_are_set_and_removed() {
        let answers = ask("SET colour light blue\nGET colour\nDEL colour\nGET colour\n");
        assert_eq!(answers, ["OK", "VALUE light blue", "OK", "NONE"]);
    }

    #[test]
    fn value_that_expires_at_once_is_gone() {
        let answers = ask("SET colour blue\nEXPIRE colour 0\nGET colour\n");
        assert_eq!(answers, ["OK", "OK", "NONE"]);
    }

    #[test]
    fn invalid_requests_are_refused() {
        let answers = ask("HELLO\nEXPIRE colour soon\nEXPIRE colour 18446744073709551615\n");
        assert!(answers.iter().all(|answer| answer.starts_with("ERROR ")), "{answers:?}");
    }
}
