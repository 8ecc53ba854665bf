//! One connection: a request after the other, until one side has had enough.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use crate::body;
use crate::input::{Failure, Input};
use crate::request::{Length, Request};
use crate::response::Response;
use crate::routes;
use crate::settings::Limits;

/// How long a client may go on sending after it was told that nobody listens, and how much.
const FAREWELL: Duration = Duration::from_secs(2);
const MAX_FAREWELL: usize = 1 << 20;

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// As all do.
    Usual,
    /// A client wants the program to end.
    Exit,
}

/// Serves a client. `crowded` says whether others wait for this connection's place.
pub(crate) fn serve(stream: &TcpStream, limits: &Limits, crowded: impl Fn() -> bool) -> io::Result<End> {
    // An answer is one write: there is nothing to wait for.
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(limits.time))?;
    let mut input = Input::new(stream);
    loop {
        let (request, body) = match next(&mut input, stream, limits) {
            Ok(next) => next,
            Err(Failure::Closed) => return Ok(End::Usual),
            Err(Failure::Refused(status)) => {
                Response::plain(status).send(stream, false, true)?;
                part(stream)?;
                return Ok(End::Usual);
            }
            Err(Failure::Broken(error)) => return Err(error),
        };
        let with_content = request.method != "HEAD";
        let response = routes::answer(&request, body);
        let keep_alive = request.keep_alive && !response.exits && (input.has_some() || !crowded());
        response.send(stream, keep_alive, with_content)?;
        if !keep_alive {
            part(stream)?;
            return Ok(if response.exits { End::Exit } else { End::Usual });
        }
    }
}

/// Waits for a request and its body.
fn next(
    input: &mut Input<&TcpStream>,
    mut stream: &TcpStream,
    limits: &Limits,
) -> Result<(Request, Vec<u8>), Failure> {
    let until = Instant::now() + limits.time;
    let request = Request::parse(&input.head(limits.line, limits.head, until)?)?;
    // Who would be refused is refused before it sends the body (RFC 9110, section 10.1.1).
    let fits = match request.length {
        Length::Known(size) => usize::try_from(size).is_ok_and(|size| size <= limits.body),
        Length::Chunked => true,
    };
    if request.expects_continue && fits && request.length != Length::Known(0) && !input.has_some() {
        stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").map_err(Failure::Broken)?;
    }
    let body = body::receive(input, request.length, limits.body, until)?;
    Ok((request, body))
}

/// Ends a connection so that the last answer is not lost: a client that still sends when nobody reads would have it
/// thrown away (RFC 9112, section 9.6).
fn part(mut stream: &TcpStream) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    let until = Instant::now() + FAREWELL;
    let mut buffer = [0; 4096];
    let mut left = MAX_FAREWELL;
    loop {
        let time = until.saturating_duration_since(Instant::now());
        if time.is_zero() || left == 0 {
            return Ok(());
        }
        stream.set_read_timeout(Some(time))?;
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return Ok(()),
            Ok(size) => left = left.saturating_sub(size),
        }
    }
}

#[cfg(test)]
mod tests;
