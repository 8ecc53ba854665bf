//! A thread's connections, one after the other, with hyper.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::service::TowerToHyperService;

use crate::executor::Executor;
use crate::stream::AsyncStream;

/// Maximum time for a connection to be idle.
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

/// Delay before the next `accept` after a failed one, such as for lack of memory or descriptors.
const RETRY_DELAY: Duration = Duration::from_millis(20);

/// Listens on all local addresses: IPv6 and IPv4, or IPv4 alone on a host without IPv6.
///
/// # Errors
///
/// The error of the second `bind`.
pub fn listen(port: u16) -> io::Result<TcpListener> {
    let any = (Ipv6Addr::UNSPECIFIED, port);
    TcpListener::bind(any).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))
}

/// Serves connections in one thread. Several may share a listener; so many clients are served at once.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    router: Router,
    executor: Executor,
}

impl Server {
    /// A server of the requests that a listener gets.
    ///
    /// # Errors
    ///
    /// Fails without descriptors for the event loop.
    pub fn new(listener: &TcpListener, router: Router) -> io::Result<Self> {
        Ok(Self { listener: listener.try_clone()?, router, executor: Executor::new()? })
    }

    /// Accepts a client, and serves it until either side closes the connection or it was idle for 10 seconds. Returns the
    /// stream if the connection ended well; a failed or idle one does not affect other clients.
    pub fn serve_next(&mut self) -> Option<TcpStream> {
        match self.listener.accept() {
            Ok((stream, _)) => self.serve(stream).ok(),
            Err(_) => {
                thread::sleep(RETRY_DELAY);
                None
            }
        }
    }

    fn serve(&mut self, stream: TcpStream) -> io::Result<TcpStream> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut source = mio::net::TcpStream::from_std(stream);
        self.executor.register(&mut source)?;
        let service = TowerToHyperService::new(self.router.clone());
        let connection = http1::Builder::new().serve_connection(AsyncStream(&source), service);
        let outcome = self.executor.block_on(connection, IDLE_TIMEOUT);
        self.executor.deregister(&mut source)?;
        outcome?.map_err(io::Error::other)?;
        Ok(source.into())
    }
}
