//! A load generator for bursts: many HTTP clients that connect to a server at the same time.
//!
//! A burst of connections is hard for a server: the accept queue overflows, SYNs are dropped, and clients
//! wait for retransmissions. [`run`] opens all connections without blocking, and drives all clients from one
//! thread with epoll. A [`Burst`] has the time until each client was served, and the reasons for failures.
//! The host's kernel is part of the path and may drop connections, too. So a burst also records how much the
//! TCP counters of the host grew.

mod host;

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::buffer::spare_capacity;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The request of each client. The server closes the connection after its response.
const REQUEST: &[u8] = b"GET /bytes/100 HTTP/1.1\r\nHost: burst\r\nConnection: close\r\n\r\n";

/// Body of the response.
const BODY: [u8; 100] = [b'x'; 100];

/// Number of file descriptors that this process needs in addition to those of the clients.
const OTHER_DESCRIPTORS: u64 = 512;

/// Number of events that one call of `epoll_wait` returns.
const MAX_EVENTS: usize = 256;

/// Pace at which the clients of a burst connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As fast as they can. If the queue of the listener is full, the host's kernel drops SYNs and the
    /// acknowledgements of handshakes.
    Fastest,
    /// As fast as the listener on the host accepts them. The host then drops no connection before it reaches
    /// the guest.
    Accepted,
}

/// Number of clients that connect at [`Pace::Accepted`] until the listener must have accepted all of them.
/// The number is smaller than the listener's queue.
const PACED_CLIENTS: usize = 64;

/// Interval at which the queue of the listener is read.
const QUEUE_INTERVAL: Duration = Duration::from_millis(1);

/// Result of a burst.
#[derive(Debug, Default)]
pub(crate) struct Burst {
    /// Number of clients.
    clients: usize,
    /// Times from the start of each served client to the end of its response, in ascending order.
    times: Vec<Duration>,
    /// Number of clients by the reason why they were not served.
    failures: BTreeMap<String, usize>,
    /// Growth of the host's TCP counters during the burst. The counters include all sockets of the host.
    host: BTreeMap<&'static str, u64>,
}

impl Burst {
    /// Returns a burst of `clients` clients. `times` are the times until the served clients were served, in
    /// ascending order.
    #[cfg(test)]
    pub(crate) fn new(clients: usize, times: Vec<Duration>) -> Self {
        Self { clients, times, ..Self::default() }
    }

    /// Returns the number of clients that did not get the right response.
    pub(crate) fn failed(&self) -> usize {
        self.clients - self.served()
    }

    /// Returns the number of clients that got the right response.
    pub(crate) fn served(&self) -> usize {
        self.times.len()
    }

    /// Returns the time within which this percentage of the served clients got their responses. Returns 0 if
    /// no client was served.
    pub(crate) fn percentile(&self, percent: usize) -> Duration {
        let rank = (self.times.len() * percent).div_ceil(100);
        self.times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
    }

    /// Fails unless all clients were served.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(self.failed() == 0, "{self}");
        Ok(())
    }
}

impl Display for Burst {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        let [p50, p99, max] = [50, 99, 100].map(|percent| self.percentile(percent).as_millis());
        write!(
            out,
            "{} of {} served; p50 {p50} ms, p99 {p99} ms, max {max} ms",
            self.served(),
            self.clients
        )?;
        self.failures.iter().try_for_each(|(reason, count)| write!(out, "; {count}: {reason}"))?;
        if self.failed() == 0 {
            return Ok(());
        }
        self.host.iter().try_for_each(|(counter, growth)| write!(out, "; host: {counter} +{growth}"))
    }
}

/// A client.
#[derive(Debug)]
struct Client {
    stream: TcpStream,
    start: Instant,
    has_sent: bool,
    response: Vec<u8>,
}

impl Client {
    /// Starts to connect.
    fn start(address: SocketAddr) -> Result<Self> {
        let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket: OwnedFd = socket_with(family, SocketType::STREAM, flags, None)?;
        let start = Instant::now();
        match connect(&socket, &address) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(error).context("cannot connect"),
        }
        Ok(Self { stream: socket.into(), start, has_sent: false, response: Vec::new() })
    }

    /// Continues after an event. Returns true if the response is complete.
    fn step(&mut self) -> Result<bool> {
        if !self.has_sent {
            if let Some(error) = self.stream.take_error()? {
                return Err(error.into());
            }
            self.stream.write_all(REQUEST)?;
            self.has_sent = true;
        }
        let mut buffer = [0; 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => self.response.extend(buffer.iter().take(count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        ensure!(self.response.ends_with(&BODY), "a response of {} bytes", self.response.len());
        Ok(true)
    }
}

/// Raises the limit of file descriptors of this process to the number that a burst needs.
fn raise_descriptor_limit(clients: usize) -> Result<()> {
    let needed = u64::try_from(clients)? + OTHER_DESCRIPTORS;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        setrlimit(Resource::Nofile, Rlimit { current: Some(needed), ..limit })
            .context("this process may not have as many descriptors as it needs")?;
    }
    Ok(())
}

/// Waits until the listener has accepted all clients that have connected, or until `limit` has passed.
fn await_accepted(port: u16, limit: Duration) -> Result<()> {
    let start = Instant::now();
    while host::accept_queue(port)? > 0 && start.elapsed() < limit {
        thread::sleep(QUEUE_INTERVAL);
    }
    Ok(())
}

/// Connects `clients` clients to `examples/httpd` at once. Each client sends a request and reads its
/// response. A client without a response after `limit` has failed.
pub(crate) fn run(address: SocketAddr, clients: usize, pace: Pace, limit: Duration) -> Result<Burst> {
    raise_descriptor_limit(clients)?;
    let counters = host::counters();
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut running = BTreeMap::new();
    for number in 0..u64::try_from(clients)? {
        if pace == Pace::Accepted && running.len() % PACED_CLIENTS == 0 {
            await_accepted(address.port(), limit)?;
        }
        let client = Client::start(address)?;
        let interest = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&epoll, &client.stream, epoll::EventData::new_u64(number), interest)?;
        running.insert(number, client);
    }
    let mut burst = Burst { clients, ..Burst::default() };
    let start = Instant::now();
    let mut events = Vec::with_capacity(MAX_EVENTS);
    while !running.is_empty() && start.elapsed() < limit {
        let timeout = Timespec::try_from(limit.saturating_sub(start.elapsed()))?;
        events.clear();
        match epoll::wait(&epoll, spare_capacity(&mut events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for clients"),
        }
        for event in &events {
            let number = event.data.u64();
            let Some(client) = running.get_mut(&number) else { continue };
            match client.step() {
                Ok(false) => continue,
                Ok(true) => burst.times.push(client.start.elapsed()),
                Err(error) => *burst.failures.entry(format!("{error:#}")).or_default() += 1,
            }
            // Drops the client. That closes its connection and so removes it from the epoll instance.
            running.remove(&number);
        }
    }
    if !running.is_empty() {
        burst.failures.insert(format!("no response within {} s", limit.as_secs()), running.len());
    }
    burst.times.sort_unstable();
    let growth = host::counters()
        .into_iter()
        .zip(counters)
        .map(|((name, now), (_, before))| (name, now.saturating_sub(before)));
    burst.host = growth.collect();
    Ok(burst)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{Ipv4Addr, TcpListener};
    use std::thread;
    use std::time::Duration;

    use super::{BODY, Burst, Pace, run};

    #[test]
    fn percentile_is_the_time_of_a_client() {
        let times = (1..=200).map(Duration::from_millis).collect();
        let burst = Burst::new(200, times);
        let times = [1, 50, 99, 100].map(|percent| burst.percentile(percent).as_millis());
        assert_eq!(times, [2, 100, 198, 200]);
        assert_eq!(Burst::default().percentile(50), Duration::ZERO);
    }

    #[test]
    fn clients_without_the_response_are_counted() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let server = thread::spawn(move || {
            let mut silent = Vec::new();
            for number in 0..30 {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = [0; 16];
                stream.read_exact(&mut request).unwrap();
                match number % 3 {
                    0 => stream.write_all(&BODY).unwrap(),
                    1 => stream.write_all(b"short").unwrap(),
                    _ => silent.push(stream.try_clone().unwrap()),
                }
                // The request is read first. Otherwise closing the socket with unread data would reset the
                // client.
                drop(stream.set_read_timeout(Some(Duration::from_millis(200))));
                drop(stream.read(&mut [0; 256]));
            }
            silent
        });
        let burst = run(address, 30, Pace::Fastest, Duration::from_secs(8)).unwrap();
        drop(server.join().unwrap());
        assert_eq!(burst.served(), 10);
        assert_eq!(burst.failures.get("a response of 5 bytes"), Some(&10));
        assert_eq!(burst.failures.get("no response within 8 s"), Some(&10));
        assert!(burst.check().unwrap_err().to_string().starts_with("10 of 30 served; p50 "));
    }
}
