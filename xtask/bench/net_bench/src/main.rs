//! Measures the network between two machines: throughput, latency, and how fast connections are made.
//!
//! - `net_bench server [PORT]` (7777) serves until a client stops it, and prints the address on which it
//!   listens.
//! - `net_bench client ADDRESS [OPTIONS] [TEST...]` measures against such a server; it prints a line of JSON
//!   for each result. The tests are `throughput`, `latency`, `connections` (these three if none is named),
//!   `concurrent` and `flows`.
//! - `net_bench local [OPTIONS] [TEST...]` runs both over the loopback address.
//! - `net_bench stop ADDRESS` ends a server.
//!
//! Options: `--seconds S` for each measurement of throughput (1), `--rounds N` of latency (10,000), `--count
//! N` sequential or concurrent connections (2,000 or 1,000), `--message BYTES` for a single message size, and
//! `--no-delay` for `TCP_NODELAY`. Of flows, `--count N` (1), of `--bytes N` each (1 MiB), `--to-server` or
//! from it, `--parallel` or one after the other, and `--limit MS` of each one's time (60,000).

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
