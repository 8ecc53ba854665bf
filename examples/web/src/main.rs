//! A microservice that keeps notes: axum, hyper and serde, unmodified from crates.io.
//!
//! `web [PORT]` prints where it listens, 8080 if nothing else is said. Requests and answers are JSON:
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /health` | how many notes there are |
//! | `GET /notes`, `GET /notes?contains=TEXT` | the notes |
//! | `POST /notes` with `{"text": ...}` | the new note, with its number |
//! | `GET`, `PUT`, `DELETE /notes/NUMBER` | the note; also with another text; or without a note any more |
//! | `POST /exit` | a farewell; then the program ends |
//!
//! tokio's sockets do not know our target, so connections are driven by mio: a thread has one at a time, and waits for
//! it by `poll`.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod drive;
mod handlers;
mod notes;
mod server;
mod stream;

use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::process::ExitCode;
use std::{env, io};

/// The port if nothing is said.
const PORT: u16 = 8080;

/// The exit code for arguments that make no sense.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let port = match env::args().nth(1).map(|port| port.parse()) {
        None => PORT,
        Some(Ok(port)) => port,
        Some(Err(_)) => {
            eprintln!("usage: web [PORT]");
            return ExitCode::from(USAGE_ERROR);
        }
    };
    match run(port) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(port: u16) -> io::Result<()> {
    let any = (Ipv6Addr::UNSPECIFIED, port);
    let listener = TcpListener::bind(any).or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))?;
    println!("listening on http://{}", listener.local_addr()?);
    server::serve(listener)
}
