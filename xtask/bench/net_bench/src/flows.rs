//! Measures flows: each flow transfers a fixed number of bytes on its own connection, with a time limit.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::Settings;
use crate::protocol::TestRequest;
use crate::report::JsonLine;
use crate::server::{drain_up_to, send_bytes};

/// Default number of bytes.
const BYTES: u32 = 1 << 20;

/// Parameters of a flow.
#[derive(Clone, Copy, Debug)]
struct Flow {
    bytes: u32,
    /// Maximum time from the start of the connection.
    limit: Duration,
    is_to_server: bool,
}

/// Progress of a flow.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// Bytes that the receiver of the flow has received.
    bytes: u64,
    /// Time until all bytes were received, or the time limit.
    time: Duration,
    is_complete: bool,
}

/// Measures the flows, all at once or one after the other, and prints a line for each.
pub(crate) fn measure(server: &str, settings: &Settings) -> io::Result<()> {
    let count = settings.count.unwrap_or(1);
    let flow = Flow {
        bytes: settings.bytes.unwrap_or(BYTES),
        limit: settings.limit,
        is_to_server: settings.is_to_server,
    };
    let size = if settings.is_parallel { count } else { 1 };
    for _ in 0..count / size {
        thread::scope(|scope| {
            let flows: Vec<_> = (0..size).map(|_| scope.spawn(|| flow.measure(server))).collect();
            flows.into_iter().try_for_each(|thread| {
                let progress = thread.join().map_err(|_| io::Error::other("a flow panicked"))??;
                flow.report(progress);
                Ok::<_, io::Error>(())
            })
        })?;
    }
    Ok(())
}

impl Flow {
    fn measure(self, server: &str) -> io::Result<Progress> {
        let end = Instant::now() + self.limit;
        let result = TcpStream::connect_timeout(&first_address(server)?, self.limit);
        let bytes = match result.and_then(|stream| self.transfer(&stream, end)) {
            Err(error) if is_timeout(&error) => 0,
            result => result?,
        };
        let time = self.limit.saturating_sub(end.saturating_duration_since(Instant::now()));
        Ok(Progress { bytes, time, is_complete: bytes == u64::from(self.bytes) })
    }

    /// Transfers the bytes. Returns the number of bytes that arrived in time.
    fn transfer(self, stream: &TcpStream, end: Instant) -> io::Result<u64> {
        if self.is_to_server {
            return self.transfer_to_server(stream, end);
        }
        request(stream, TestRequest::Send { bytes: self.bytes })?;
        drain_up_to(stream, end, |_| Ok(()))
    }

    fn transfer_to_server(self, stream: &TcpStream, end: Instant) -> io::Result<u64> {
        // The server reads only until the time limit, and then closes the connection, which resets it.
        // Otherwise the client's host would still send its buffered data after the limit.
        let milliseconds = end.saturating_duration_since(Instant::now()).as_millis();
        let milliseconds = u32::try_from(milliseconds).unwrap_or(u32::MAX);
        request(stream, TestRequest::CountingSink { milliseconds })?;
        thread::scope(|scope| {
            scope.spawn(|| {
                // An error is ignored: the connection is shut down at the time limit, which ends the
                // transfer.
                let _: io::Result<()> =
                    send_bytes(stream, self.bytes).and_then(|()| stream.shutdown(Shutdown::Write));
            });
            let bytes = last_count(stream, end);
            let _: io::Result<()> = stream.shutdown(Shutdown::Both);
            bytes
        })
    }

    fn report(self, Progress { bytes, time, is_complete }: Progress) {
        let line = JsonLine::new("flow")
            .word("direction", if self.is_to_server { "to server" } else { "from server" })
            .number("bytes", bytes)
            .microseconds("time_us", time)
            .number("complete", is_complete);
        println!("{}", line.finish());
    }
}

fn first_address(server: &str) -> io::Result<SocketAddr> {
    server.to_socket_addrs()?.next().ok_or_else(|| io::Error::other(format!("{server} has no address")))
}

fn request(mut stream: &TcpStream, request: TestRequest) -> io::Result<()> {
    stream.write_all(&request.encode())
}

/// Reads the server's counts until the end of the stream or until the time `end`. Returns the last count.
fn last_count(mut stream: &TcpStream, end: Instant) -> io::Result<u64> {
    let mut count = [0; 8];
    let mut last = 0;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(last);
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read_exact(&mut count) {
            Ok(()) => last = u64::from_le_bytes(count),
            Err(error) if is_timeout(&error) || is_end(&error) => return Ok(last),
            Err(error) => return Err(error),
        }
    }
}

/// Returns true if a read or a connection attempt took too long.
pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Returns true if the server has closed the connection.
fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{Flow, last_count};
    use crate::server;

    #[test]
    fn flows_arrive_in_both_directions() {
        let listener = server::listen(0).unwrap();
        let address = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
        thread::spawn(move || server::serve(&listener));
        for is_to_server in [true, false] {
            let flow = Flow { bytes: 300_001, limit: Duration::from_secs(30), is_to_server };
            let progress = flow.measure(&address).unwrap();
            assert!(progress.is_complete && progress.bytes == 300_001, "{progress:?}");
        }
    }

    #[test]
    fn flow_ends_at_its_limit() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        for is_to_server in [true, false] {
            let limit = Duration::from_millis(20);
            let flow = Flow { bytes: 64 << 20, limit, is_to_server };
            let progress = flow.measure(&address).unwrap();
            assert!(!progress.is_complete && progress.bytes == 0 && progress.time == limit, "{progress:?}");
        }
    }

    #[test]
    fn last_count_is_the_latest_complete_one() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(&7_u64.to_le_bytes()).unwrap();
        server.write_all(&9_u64.to_le_bytes()).unwrap();
        server.write_all(&[1]).unwrap();
        drop(server);
        assert_eq!(last_count(&stream, Instant::now() + Duration::from_secs(30)).unwrap(), 9);
    }
}
