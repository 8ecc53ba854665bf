//! Measures the network between two machines: throughput, latency, and how fast connections are made.
//!
//! - `net_bench server [PORT]` (default 7777) prints the address on which it listens, and serves until a
//!   client stops it.
//! - `net_bench client ADDRESS [OPTIONS] [TEST...]` measures against a server, and prints a line of JSON for
//!   each result. The tests are `throughput`, `latency`, `connections`, `concurrent` and `flows`; the default
//!   is the first three.
//! - `net_bench local [OPTIONS] [TEST...]` runs server and client in one process, over the loopback
//!   interface.
//! - `net_bench stop ADDRESS` ends a server.
//!
//! Options, with defaults in parentheses: `--seconds S` is the duration of each throughput measurement (1),
//! `--rounds N` the number of round trips for latency (10,000), `--count N` the number of sequential or
//! concurrent connections (2,000 or 1,000). `--message BYTES` selects a single message size, and `--no-delay`
//! sets `TCP_NODELAY`.
//!
//! Options of the test `flows`: `--count N` is the number of flows (1), `--bytes N` the size of each flow (1
//! MiB), and `--limit MS` its time limit (60,000). With `--to-server`, the client sends; with `--parallel`,
//! all flows run at the same time.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod arguments;
mod client;
mod connections;
mod flows;
mod latency;
mod protocol;
mod report;
mod server;
mod throughput;

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::{env, io, thread};

use arguments::{Mode, Settings};

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args_os().skip(1).map(|word| word.display().to_string()).collect();
    let role = match arguments::parse(&arguments) {
        Ok(role) => role,
        Err(message) => {
            eprintln!(
                "{message}\nusage: net_bench server [PORT] | client ADDRESS [OPTIONS] [TEST...] | local | stop ADDRESS"
            );
            return ExitCode::from(USAGE_ERROR);
        }
    };
    match run(&role) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(role: &Mode) -> io::Result<()> {
    match role {
        Mode::Server(port) => {
            let listener = server::listen(*port)?;
            println!("listening on {}", listener.local_addr()?);
            server::serve(&listener)
        }
        Mode::Client(server, settings) => client::measure(server, settings),
        Mode::Local(settings) => local(settings),
        Mode::Stop(server) => protocol::stop(server),
    }
}

/// Runs server and client in this process.
fn local(settings: &Settings) -> io::Result<()> {
    let listener = server::listen(0)?;
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, listener.local_addr()?.port())).to_string();
    thread::scope(|scope| {
        let server = scope.spawn(|| server::serve(&listener));
        let measured = client::measure(&address, settings);
        protocol::stop(&address)?;
        server.join().map_err(|_| io::Error::other("the server panicked"))??;
        measured
    })
}
