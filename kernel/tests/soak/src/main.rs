//! A service that does everything at once, for hours: HTTP on tokio, and beside it files, threads and names.
//!
//! `soak [ADDRESS]` listens on port 8080. Threads of std repeat their work without a request. A wrong result
//! ends the program with exit code 1. With ADDRESS, which the name server has for all names, names are
//! resolved, too.
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /bytes/N` | N bytes; byte K has the value K modulo 251 |
//! | `POST /sum` | length and sum of the bytes of the body |
//! | `GET /progress` | how often each work was done |
//! | `GET /available` | the size in bytes of the memory that is not in use (`/proc/meminfo`) |
//! | `POST /pause`, `POST /resume` | works pause after their round, or go on |
//! | `POST /exit` | `goodbye`; then the program exits |

#![forbid(unsafe_code)]

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod files;
mod names;
mod random;
mod service;
mod threads;
mod work;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::{env, io};

use tokio::net::TcpListener;

use work::{Progress, Work};

/// The port of the service.
const PORT: u16 = 8080;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Number of threads that work on files; each has a folder.
const FILE_THREADS: u64 = 3;

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let (address, rest) = (arguments.next().map(|text| text.parse::<IpAddr>()), arguments.next());
    let (None | Some(Ok(_)), None) = (&address, rest) else {
        eprintln!("usage: soak [ADDRESS]");
        return ExitCode::from(USAGE_ERROR);
    };
    match run(address.and_then(Result::ok)).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(address: Option<IpAddr>) -> io::Result<()> {
    let progress = Progress::shared();
    let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::UNSPECIFIED, PORT))).await?;
    for number in 0..FILE_THREADS {
        progress.repeat(Work::Files, number, move |random| files::round(number, random));
    }
    progress.repeat(Work::Threads, FILE_THREADS, |_| threads::round());
    if let Some(address) = address {
        progress.repeat(Work::Names, FILE_THREADS + 1, move |random| names::round(address, random));
    }
    println!("listening on http://{}", listener.local_addr()?);
    service::serve(listener, progress).await
}
