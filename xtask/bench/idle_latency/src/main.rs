//! Measures the time from request to answer on an otherwise idle machine, where nothing else wakes the
//! network. There are three runtimes: blocking calls of std, tokio, and smol.
//!
//! - `idle_latency server [PORT]` (default 7780) answers requests at the three ports after `PORT`, one for
//!   each runtime. At `PORT` itself, the server reads a line `RUNTIME COUNT ADDRESS` on each connection,
//!   measures as a client, and answers with the result.
//! - `idle_latency client RUNTIME COUNT ADDRESS` measures `COUNT` requests to a server, each on a new
//!   connection, and prints the result as a line of JSON. `ADDRESS` has the port of one of the server's
//!   runtimes.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod blocking;
mod on_smol;
mod on_tokio;
mod times;

use std::io::{self, BufRead, BufReader, Error, ErrorKind, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::{env, thread};

use times::Times;

/// Default port of the server.
const PORT: u16 = 7780;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Request of a client. The server sends it back as the answer.
const REQUEST: [u8; 6] = *b"PING\r\n";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match *words {
        ["server"] => serve(PORT),
        ["server", port] => port.parse().map_err(invalid).and_then(serve),
        ["client", ref order @ ..] => measure(order).map(|times| println!("{}", times.to_json())),
        _ => Err(invalid("server or client is missing")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            eprintln!("{error}\nusage: idle_latency server [PORT] | client std|tokio|smol COUNT ADDRESS");
            ExitCode::from(USAGE_ERROR)
        }
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn invalid(reason: impl ToString) -> Error {
    Error::new(ErrorKind::InvalidInput, reason.to_string())
}

/// Measures according to the words `RUNTIME COUNT ADDRESS`.
fn measure(order: &[&str]) -> io::Result<Times> {
    let &[runtime, count, address] = order else { return Err(invalid("RUNTIME COUNT ADDRESS is expected")) };
    let count = count.parse().map_err(invalid)?;
    let address: SocketAddr = address.parse().map_err(invalid)?;
    match runtime {
        "std" => blocking::measure(address, count),
        "tokio" => on_tokio::measure(address, count),
        "smol" => on_smol::measure(address, count),
        _ => Err(invalid(format!("there is no runtime {runtime}"))),
    }
}

/// Serves at `port` and the three ports that follow.
fn serve(port: u16) -> io::Result<()> {
    let listen = |offset: u16| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port + offset));
    let (control, first, second, third) = (listen(0)?, listen(1)?, listen(2)?, listen(3)?);
    thread::scope(|scope| {
        scope.spawn(move || blocking::serve(&first));
        scope.spawn(move || on_tokio::serve(second));
        scope.spawn(move || on_smol::serve(third));
        for stream in control.incoming() {
            // A client that has closed its connection, or has sent an invalid line, gets no result.
            if let Err(error) = stream.and_then(obey) {
                eprintln!("control: {error}");
            }
        }
        Ok(())
    })
}

/// Reads a line, measures what it requests, and answers with the result.
fn obey(mut stream: TcpStream) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(&stream).read_line(&mut line)?;
    if line.is_empty() {
        // A client that sends nothing only tests if the server is up.
        return Ok(());
    }
    let order: Vec<&str> = line.split_whitespace().collect();
    writeln!(stream, "{}", measure(&order)?.to_json())
}
