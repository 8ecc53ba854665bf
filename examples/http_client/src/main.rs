//! Fetches a URL by HTTP/1.1 over std's streams, and by HTTPS with rustls.
//!
//! `http_client URL` writes the content to standard output. Errors, and a status other than success, go to
//! standard error, with exit code 1. Redirects are followed. Certificates are verified with Mozilla's root
//! certificates, and with the root certificate in the variable `HTTP_CLIENT_ROOT`, if it is set. The variable
//! has the text between the first and the last line of a PEM file. `HTTP_CLIENT_TIMEOUT` is the timeout in
//! seconds for connecting and for each read and write: 30 by default.

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

/// Maximum number of redirects.
const MAX_REDIRECTS: usize = 10;

/// Reason why the content could not be fetched.
#[derive(Debug)]
pub(crate) enum FetchError {
    /// The connection failed.
    Connection(io::Error),
    /// The response violates HTTP.
    Answer(&'static str),
    /// The URL is invalid or unsupported.
    Url(String),
}

impl fmt::Display for FetchError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connection(error) => write!(out, "{error}"),
            Self::Answer(problem) => write!(out, "invalid response: {problem}"),
            Self::Url(problem) => write!(out, "{problem}"),
        }
    }
}

impl From<io::Error> for FetchError {
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

/// Fetches a URL, and follows redirects. Returns the head of the final response.
fn fetch(url: &str, out: &mut impl Write) -> Result<Head, FetchError> {
    let mut url = Url::parse(url)?;
    for _ in 0..=MAX_REDIRECTS {
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
    Err(FetchError::Answer("there is no end of redirections"))
}

/// Builds a request (RFC 9112, section 3).
fn request(url: &Url) -> String {
    let (path, host) = (&url.path, url.authority());
    format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: http_client\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    )
}

#[cfg(test)]
mod tests;
