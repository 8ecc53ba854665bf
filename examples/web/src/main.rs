//! A microservice that stores notes: axum on tokio, as one writes it for Linux.
//!
//! `web [PORT]` (default 8080) prints its address. Requests and responses are JSON:
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /health` | operating system and number of notes |
//! | `GET /notes`, `GET /notes?contains=TEXT` | all notes, or those that contain the text |
//! | `POST /notes` with `{"text": ...}` | the new note, with its number |
//! | `GET`, `PUT`, `DELETE /notes/NUMBER` | the note, after it was read, changed or removed |
//! | `GET /available` | the size in bytes of the memory that is not in use (`/proc/meminfo`) |
//! | `GET /panic` | none: the handler panics, as one with a bug, which ends its connection and no other |
//! | `POST /exit` | `goodbye`; then the program exits |
//!
//! It exits after SIGTERM or Ctrl-C, too, when all requests are answered.

#![forbid(unsafe_code)]

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod handlers;
mod memory;
mod notes;
mod service;

use std::net::{Ipv4Addr, Ipv6Addr};
use std::process::ExitCode;
use std::{env, io};

use tokio::net::TcpListener;

/// Default port.
const DEFAULT_PORT: u16 = 8080;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

#[tokio::main]
async fn main() -> ExitCode {
    let port = match env::args().nth(1).map(|port| port.parse()) {
        None => DEFAULT_PORT,
        Some(Ok(port)) => port,
        Some(Err(_)) => {
            eprintln!("usage: web [PORT]");
            return ExitCode::from(USAGE_ERROR);
        }
    };
    match run(port).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(port: u16) -> io::Result<()> {
    let listener = listen(port).await?;
    println!("listening on http://{}", listener.local_addr()?);
    service::serve(listener).await
}

/// Listens on all local addresses: IPv6 and IPv4, or IPv4 alone on a host without IPv6.
async fn listen(port: u16) -> io::Result<TcpListener> {
    match TcpListener::bind((Ipv6Addr::UNSPECIFIED, port)).await {
        Ok(listener) => Ok(listener),
        Err(_) => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).await,
    }
}
