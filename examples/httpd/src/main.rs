//! Serves HTTP/1.1 (RFC 9110 and 9112) by std alone: connections that are kept, pipelining, a thread for each of them.
//!
//! `httpd [PORT]` prints where it listens, 8080 if nothing else is said, and serves until somebody asks for `/exit`:
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /` | a greeting |
//! | `POST /echo` | what came |
//! | `GET /bytes/N` | N bytes |
//! | `GET /file` | what is in the file that the variable `HTTPD_FILE` names |
//! | `GET /memory` | how many bytes the program could get at once |
//! | `POST /exit`, `GET /exit` | a farewell; then the program ends |
//!
//! Variables: `HTTPD_PORT`, `HTTPD_CONNECTIONS` (most at a time, 1024), `HTTPD_BODY` (most bytes of a request's body,
//! 1 MiB), `HTTPD_TIMEOUT` (most milliseconds for a request to arrive, 10,000).

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod body;
mod connection;
mod date;
mod input;
mod memory;
mod places;
mod request;
mod response;
mod routes;
mod server;
mod settings;
mod status;

use std::process::ExitCode;
use std::{env, io};

use settings::Settings;

/// The exit code for arguments that make no sense.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args_os().skip(1).map(|word| word.display().to_string()).collect();
    let settings = match Settings::new(&arguments, |name| env::var(name).ok()) {
        Ok(settings) => settings,
        Err(message) => {
            eprintln!("{message}\nusage: httpd [PORT]");
            return ExitCode::from(USAGE_ERROR);
        }
    };
    match run(&settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cannot listen at port {}: {error}", settings.port);
            ExitCode::FAILURE
        }
    }
}

fn run(settings: &Settings) -> io::Result<()> {
    let listener = server::listen(settings.port)?;
    println!("listening on http://{}", listener.local_addr()?);
    server::serve(listener, *settings);
    Ok(())
}
