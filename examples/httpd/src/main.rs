//! An HTTP/1.1 server (RFC 9110 and 9112) on std alone: persistent connections, pipelining, a thread per
//! connection.
//!
//! `httpd [PORT]` (default 8080) prints its address and serves until a client requests `/exit`, or until
//! SIGTERM or Ctrl-C. Then it accepts no more connections, answers the requests that it has received, and
//! exits:
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /` | a greeting |
//! | `POST /echo` | the request's body |
//! | `GET /bytes/N` | N bytes |
//! | `GET /file` | the contents of the file named by the variable `HTTPD_FILE` |
//! | `GET /available` | the size in bytes of the memory that is not in use (`/proc/meminfo`) |
//! | `POST /exit`, `GET /exit` | `goodbye`; then the program exits |
//!
//! Variables: `HTTPD_PORT`, `HTTPD_CONNECTIONS` (maximum number of connections, 1024), `HTTPD_BODY` (maximum
//! size of a request's body in bytes, 1 MiB), `HTTPD_TIMEOUT` (maximum time for a request to arrive in
//! milliseconds, 10,000).

mod body;
mod connection;
mod date;
mod input;
mod memory;
mod request;
mod response;
mod routes;
mod semaphore;
mod server;
mod settings;
mod status;

use std::process::ExitCode;
use std::{env, io};

use settings::Settings;

/// Exit code for invalid arguments.
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
