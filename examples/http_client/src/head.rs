//! Head of a response: status and fields (RFC 9112, sections 4 and 5).

use std::io::{BufRead, Read};

use crate::FetchError;

/// Maximum size of a head in bytes.
const MAX_SIZE: u64 = 64 << 10;

/// Maximum number of interim (1xx) responses.
const MAX_INTERIM: usize = 10;

/// The head of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    pub(crate) reason: String,
    pub(crate) length: Option<u64>,
    pub(crate) chunked: bool,
    pub(crate) location: Option<String>,
}

impl Head {
    /// Receives the head of the final response. Skips interim (1xx) responses.
    pub(crate) fn receive_final(input: &mut impl BufRead) -> Result<Self, FetchError> {
        for _ in 0..MAX_INTERIM {
            let head = Self::receive(input)?;
            if !(100..200).contains(&head.status) {
                return Ok(head);
            }
        }
        Err(FetchError::Answer("there is no end of announcements"))
    }

    fn receive(input: &mut impl BufRead) -> Result<Self, FetchError> {
        let mut input = input.take(MAX_SIZE);
        let mut head = status_line(&line(&mut input)?)?;
        loop {
            let line = line(&mut input)?;
            if line.is_empty() {
                return Ok(head);
            }
            let (name, value) = line.split_once(':').ok_or(FetchError::Answer("a field has no colon"))?;
            head.set(&name.to_ascii_lowercase(), value.trim())?;
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), FetchError> {
        match name {
            "content-length" => {
                let length = value.parse().map_err(|_| FetchError::Answer("its length is no number"))?;
                if self.length.replace(length).is_some_and(|other| other != length) {
                    return Err(FetchError::Answer("it has two lengths"));
                }
            }
            "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => self.chunked = true,
            "transfer-encoding" => return Err(FetchError::Answer("its coding is unknown")),
            "location" => self.location = Some(value.to_owned()),
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns true if the status is a redirect.
    pub(crate) fn is_redirection(&self) -> bool {
        [301, 302, 303, 307, 308].contains(&self.status)
    }

    /// Returns true if the response has no content, whatever its fields say.
    pub(crate) fn is_empty(&self) -> bool {
        [204, 304].contains(&self.status)
    }
}

/// Reads a line, without its line ending.
pub(crate) fn line(input: &mut impl BufRead) -> Result<String, FetchError> {
    let mut bytes = Vec::new();
    input.read_until(b'\n', &mut bytes)?;
    let line = bytes.strip_suffix(b"\n").ok_or(FetchError::Answer("a line is cut off or too long"))?;
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8(line.to_vec()).map_err(|_| FetchError::Answer("a line is no text"))
}

fn status_line(line: &str) -> Result<Head, FetchError> {
    let wrong = || FetchError::Answer("it is not HTTP/1");
    let mut words = line.splitn(3, ' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().filter(|status| status.len() == 3).and_then(|status| status.parse().ok());
    match status {
        Some(status) if version.starts_with("HTTP/1.") => {
            Ok(Head { status, reason: words.next().unwrap_or_default().to_owned(), ..Head::default() })
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::Head;

    fn receive(text: &str) -> Result<Head, String> {
        Head::receive_final(&mut text.as_bytes()).map_err(|failure| failure.to_string())
    }

    #[test]
    fn head_is_parsed_after_interim_response() {
        let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 302 Found there\r\nLOCATION: /a\r\nX: y\r\n\
            content-length:  7 \r\n\r\nrest";
        let (reason, location) = ("Found there".to_owned(), Some("/a".to_owned()));
        let expected = Head { status: 302, reason, length: Some(7), chunked: false, location };
        assert_eq!(receive(text), Ok(expected));
        assert!(receive("HTTP/1.1 200\nTransfer-Encoding: Chunked\n\n").unwrap().chunked);
    }

    #[test]
    fn invalid_heads_are_rejected() {
        for text in [
            "",
            "HTTP/2 200 OK\r\n\r\n",
            "HTTP/1.1 20 OK\r\n\r\n",
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.1 200 OK\r\nx\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        ] {
            assert!(receive(text).is_err(), "{text}");
        }
        assert!(receive(&format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "y".repeat(70_000))).is_err());
        assert!(receive(&"HTTP/1.1 100 Continue\r\n\r\n".repeat(11)).is_err());
    }
}
