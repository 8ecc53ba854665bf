//! Receives the content of a response. Its length is known, or it is chunked, or it extends to the end of the
//! connection (RFC 9112, section 6.3).

use std::io::{self, BufRead, Read, Write};

use crate::FetchError;
use crate::head::{Head, line};

/// Maximum size of a chunk's first line, and of a trailer field, in bytes.
const MAX_LINE: u64 = 4096;

/// Maximum number of trailer fields.
const MAX_TRAILERS: usize = 100;

/// Copies the content to `out`.
pub(crate) fn copy(input: &mut impl BufRead, head: &Head, out: &mut impl Write) -> Result<(), FetchError> {
    match head.length {
        _ if head.is_empty() => Ok(()),
        _ if head.chunked => chunks(input, out),
        Some(length) => exactly(input, length, out),
        None => Ok(io::copy(input, out).map(drop)?),
    }
}

fn exactly(input: &mut impl BufRead, length: u64, out: &mut impl Write) -> Result<(), FetchError> {
    let copied = io::copy(&mut input.take(length), out)?;
    if copied == length { Ok(()) } else { Err(FetchError::Answer("it is cut off")) }
}

fn chunks(input: &mut impl BufRead, out: &mut impl Write) -> Result<(), FetchError> {
    loop {
        let line = short_line(input)?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        match u64::from_str_radix(digits, 16) {
            Ok(0) => break,
            Ok(size) => exactly(input, size, out)?,
            Err(_) => return Err(FetchError::Answer("a chunk has no size")),
        }
        if !short_line(input)?.is_empty() {
            return Err(FetchError::Answer("a chunk is longer than it says"));
        }
    }
    for _ in 0..MAX_TRAILERS {
        if short_line(input)?.is_empty() {
            return Ok(());
        }
    }
    Err(FetchError::Answer("there is no end of fields"))
}

fn short_line(input: &mut impl BufRead) -> Result<String, FetchError> {
    line(&mut input.take(MAX_LINE))
}

#[cfg(test)]
mod tests {
    use super::copy;
    use crate::head::Head;

    fn content(head: &Head, bytes: &str) -> Option<String> {
        let mut out = Vec::new();
        copy(&mut bytes.as_bytes(), head, &mut out).ok().map(|()| String::from_utf8(out).unwrap())
    }

    #[test]
    fn content_length_is_respected() {
        let head = Head { status: 200, length: Some(3), ..Head::default() };
        assert_eq!(content(&head, "abcd").unwrap(), "abc");
        assert_eq!(content(&head, "ab"), None);
        assert_eq!(content(&Head { length: None, ..head.clone() }, "abcd").unwrap(), "abcd");
        assert_eq!(content(&Head { status: 204, ..head }, "abc").unwrap(), "");
    }

    #[test]
    fn chunks_are_joined() {
        let head = Head { status: 200, length: Some(1), chunked: true, ..Head::default() };
        assert_eq!(
            content(&head, "3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\nX: y\r\n\r\n").unwrap(),
            "abc0123456789"
        );
        for bytes in ["", "3\r\nab", "3\r\nabcd\r\n0\r\n\r\n", "x\r\n", "0\r\n", "-1\r\n", "3\r\nabc\r\n"] {
            assert_eq!(content(&head, bytes), None, "{bytes}");
        }
    }
}
