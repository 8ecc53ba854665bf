//! A microservice that stores notes: axum, hyper and serde, unmodified from crates.io.
//!
//! `web [PORT]` (default 8080) prints its address. Requests and responses are JSON:
//!
//! | request | answer |
//! | --- | --- |
//! | `GET /health` | operating system and number of notes |
//! | `GET /notes`, `GET /notes?contains=TEXT` | all notes, or those that contain the text |
//! | `POST /notes` with `{"text": ...}` | the new note, with its number |
//! | `GET`, `PUT`, `DELETE /notes/NUMBER` | the note, after it was read, changed or removed |
//! | `POST /exit` | `goodbye`; then the program exits |

#![forbid(unsafe_code)]

mod handlers;
mod notes;
mod service;

use std::process::ExitCode;
use std::{env, io};

/// Default port.
const DEFAULT_PORT: u16 = 8080;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

fn main() -> ExitCode {
    let port = match env::args().nth(1).map(|port| port.parse()) {
        None => DEFAULT_PORT,
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
    let listener = web::listen(port)?;
    println!("listening on http://{}", listener.local_addr()?);
    service::serve(&listener)
}
