//! Fetches what a URL names, by HTTP/1.1 over std's streams, and by HTTPS with rustls.
//!
//! `http_client URL` writes the content to the standard output; what goes wrong, and a status that is no success, to the
//! standard error stream, with exit code 1. Redirections are followed. A certificate counts if one of Mozilla's roots
//! vouches for it, or the one in the variable `HTTP_CLIENT_ROOT`: what stands between the first and the last line of its
//! PEM file.

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod connection;
mod content;
mod head;
mod tls;
mod url;

use std::io::{self, BufReader, Write};
use std::process::ExitCode;
use std::{env, fmt};

use head::Head;
use url::Url;

/// Exit code for invalid arguments.
const USAGE_ERROR: u8 = 2;

/// Most redirections that are followed.
const REDIRECTIONS: usize = 10;

/// Why there is no content.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The connection failed.
    Connection(io::Error),
    /// The server did not say what HTTP says.
    Answer(&'static str),
    /// The URL is none, or none that is known here.
    Url(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => write!(out, "{error}"),
            Self::Answer(problem) => write!(out, "the answer makes no sense: {problem}"),
            Self::Url(problem) => write!(out, "{problem}"),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args_os().skip(1).map(|word| word.display().to_string()).collect();
    let [url] = arguments.as_slice() else {
        eprintln!("usage: http_client URL");
        return ExitCode::from(USAGE_ERROR);
    };
    match fetch(url, &mut io::stdout().lock()) {
        Ok(head) if head.is_success() => ExitCode::SUCCESS,
        Ok(head) => {
            eprintln!("{url}: {} {}", head.status, head.reason);
            ExitCode::FAILURE
        }
        Err(failure) => {
            eprintln!("{url}: {failure}");
            ExitCode::FAILURE
        }
    }
}

/// Fetches what the URL names, or what that names that it was sent to.
fn fetch(url: &str, out: &mut impl Write) -> Result<Head, Failure> {
    let mut url = Url::parse(url)?;
    for _ in 0..=REDIRECTIONS {
        let mut input = BufReader::new(connection::open(&url)?);
        input.get_mut().write_all(request(&url).as_bytes())?;
        input.get_mut().flush()?;
        let head = Head::receive_final(&mut input)?;
        match &head.location {
            Some(location) if head.is_redirection() => url = url.join(location)?,
            _ => {
                content::copy(&mut input, &head, out)?;
                out.flush()?;
                return Ok(head);
            }
        }
    }
    Err(Failure::Answer("there is no end of redirections"))
}

/// A request for what the URL names (RFC 9112, section 3).
fn request(url: &Url) -> String {
    let (path, host) = (&url.path, url.authority());
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: http_client\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests;
