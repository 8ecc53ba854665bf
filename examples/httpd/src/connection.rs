//! One connection: requests are served in order until either side closes it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::body;
use crate::input::{ReceiveBuffer, ReceiveError};
use crate::request::{BodyLength, HttpRequest};
use crate::response::Response;
use crate::routes;
use crate::settings::RequestLimits;

/// Limits of the lingering close: the maximum time for which the server still reads after it has closed its
/// side, and the maximum number of bytes.
const LINGER_TIMEOUT: Duration = Duration::from_secs(2);
const MAX_LINGER_BYTES: usize = 1 << 20;

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The connection was closed.
    Closed,
    /// The client requested `/exit`.
    ExitRequested,
}

/// Serves a client. The connection is not kept alive while `is_crowded` returns true, that is, while other
/// clients wait for a permit.
pub(crate) fn serve(
    stream: &TcpStream,
    limits: &RequestLimits,
    is_crowded: impl Fn() -> bool,
) -> io::Result<ConnectionEnd> {
    // A response is one write, so Nagle's algorithm would only delay it.
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(limits.time))?;
    let mut input = ReceiveBuffer::new(stream);
    loop {
        let (request, body) = match receive_request(&mut input, stream, limits) {
            Ok(request) => request,
            Err(ReceiveError::Closed) => return Ok(ConnectionEnd::Closed),
            Err(ReceiveError::Rejected(status)) => {
                Response::status_only(status).send(stream, false, true)?;
                lingering_close(stream)?;
                return Ok(ConnectionEnd::Closed);
            }
            Err(ReceiveError::Io(error)) => return Err(error),
        };
        let has_content = request.method != "HEAD";
        let response = routes::respond(&request, body);
        let keep_alive = request.keep_alive && !response.exits && (input.has_buffered() || !is_crowded());
        response.send(stream, keep_alive, has_content)?;
        if !keep_alive {
            lingering_close(stream)?;
            return Ok(if response.exits { ConnectionEnd::ExitRequested } else { ConnectionEnd::Closed });
        }
    }
}

/// Receives a request and its body.
fn receive_request(
    input: &mut ReceiveBuffer<&TcpStream>,
    mut stream: &TcpStream,
    limits: &RequestLimits,
) -> Result<(HttpRequest, Vec<u8>), ReceiveError> {
    let deadline = Instant::now() + limits.time;
    let request = HttpRequest::parse(&input.read_head(limits.line, limits.head, deadline)?)?;
    // If the body is too large, the request is rejected before the client sends the body (RFC 9110, section
    // 10.1.1).
    let fits = match request.length {
        BodyLength::Known(size) => usize::try_from(size).is_ok_and(|size| size <= limits.body),
        BodyLength::Chunked => true,
    };
    if request.expects_continue && fits && request.length != BodyLength::Known(0) && !input.has_buffered() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(ReceiveError::Io)?;
    }
    let body = body::receive(input, request.length, limits.body, deadline)?;
    Ok((request, body))
}

/// Closes the connection for writing, and reads until the client closes its side. If the connection were
/// closed with unread data, the kernel would send a reset, which can destroy the last response (RFC 9112,
/// section 9.6).
fn lingering_close(mut stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let deadline = Instant::now() + LINGER_TIMEOUT;
    let mut buffer = [0; 4096];
    let mut remaining = MAX_LINGER_BYTES;
    loop {
        let remaining_time = deadline.saturating_duration_since(Instant::now());
        if remaining_time.is_zero() || remaining == 0 {
            return Ok(());
        }
        stream.set_read_timeout(Some(remaining_time))?;
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return Ok(()),
            Ok(size) => remaining = remaining.saturating_sub(size),
        }
    }
}

#[cfg(test)]
mod tests;
