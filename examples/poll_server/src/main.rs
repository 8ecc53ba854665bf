//! An echo server for many clients in one thread: an event loop with mio.
//!
//! `poll_server [PORT]` (default 7070) prints its address and echoes every client's bytes. If a client sends
//! the line `exit`, the server prints the number of clients and ends. On this kernel, mio waits with `epoll`,
//! as on Linux, if it is patched; `cargo xtask` applies the patch. Without the patch, mio waits with `poll`.
//! Its waker is an `eventfd`.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod client;
mod server;

use std::io;
use std::process::ExitCode;
use std::{env, str::FromStr};

use server::Server;

/// Default port.
const DEFAULT_PORT: u16 = 7070;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let port = match env::args().nth(1).as_deref().map(u16::from_str) {
        None => DEFAULT_PORT,
        Some(Ok(port)) => port,
        Some(Err(_)) => {
            eprintln!("usage: poll_server [PORT]");
            return ExitCode::from(USAGE_ERROR);
        }
    };
    match run(port) {
        Ok(count) => {
            println!("served {count} clients");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(port: u16) -> io::Result<usize> {
    let mut server = Server::new(port)?;
    println!("listening on {}", server.address()?);
    server.run()
}
