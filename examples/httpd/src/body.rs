//! Receives request bodies. Their length is known, or they are chunked (RFC 9112, sections 6 and 7).

use std::time::Instant;

use crate::input::{DeadlineRead, ReceiveBuffer, ReceiveError};
use crate::request::BodyLength;
use crate::status::Status;

/// Maximum size in bytes of a chunk's first line including extensions, and of a trailer field.
const MAX_LINE: usize = 1024;

/// Maximum number of trailer fields.
const MAX_TRAILERS: usize = 16;

/// Receives a body of at most `max` bytes.
pub(crate) fn receive<S: DeadlineRead>(
    input: &mut ReceiveBuffer<S>,
    length: BodyLength,
    max: usize,
    deadline: Instant,
) -> Result<Vec<u8>, ReceiveError> {
    match length {
        BodyLength::Known(size) => input.read_exact(checked_size(size, max)?, deadline),
        BodyLength::Chunked => chunked(input, max, deadline),
    }
}

/// Returns the size, if it is not above the maximum.
fn checked_size(size: u64, max: usize) -> Result<usize, Status> {
    usize::try_from(size).ok().filter(|size| *size <= max).ok_or(Status::ContentTooLarge)
}

fn chunked<S: DeadlineRead>(
    input: &mut ReceiveBuffer<S>,
    max: usize,
    deadline: Instant,
) -> Result<Vec<u8>, ReceiveError> {
    let mut body = Vec::new();
    loop {
        let size = chunk_size(&input.read_line(MAX_LINE, deadline)?)?;
        if size == 0 {
            break;
        }
        let size = checked_size(size, max.saturating_sub(body.len()))?;
        body.extend(input.read_exact(size, deadline)?);
        if !input.read_line(0, deadline)?.is_empty() {
            return Err(Status::BadRequest.into());
        }
    }
    // Trailer fields are ignored.
    for _ in 0..=MAX_TRAILERS {
        if input.read_line(MAX_LINE, deadline)?.is_empty() {
            return Ok(body);
        }
    }
    Err(Status::RequestHeaderFieldsTooLarge.into())
}

/// Parses the size in a chunk's first line. Ignores extensions after `;`.
fn chunk_size(line: &[u8]) -> Result<u64, Status> {
    let line = str::from_utf8(line).map_err(|_| Status::BadRequest)?;
    let digits = line.split(';').next().unwrap_or_default().trim_end_matches([' ', '\t']);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Status::BadRequest);
    }
    u64::from_str_radix(digits, 16).map_err(|_| Status::ContentTooLarge)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop};
    use proptest::{prop_assert_eq, proptest};

    use super::receive;
    use crate::input::ReceiveError;
    use crate::input::tests::{deadline, input};
    use crate::request::BodyLength;
    use crate::status::Status;

    const CHUNKED: BodyLength = BodyLength::Chunked;

    fn rejected_status(bytes: &[u8], length: BodyLength, ends: bool) -> Status {
        match receive(&mut input(bytes, 3, ends), length, 100, deadline()) {
            Err(ReceiveError::Rejected(status)) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn chunks_are_joined() {
        let bytes = b"3\r\nabc\r\n0B;x=y\r\n0123456789a \r\n"; // the second is one byte too long
        assert_eq!(rejected_status(bytes, CHUNKED, true), Status::BadRequest);
        let bytes = b"3\r\nabc\r\n0B;x=y\r\n0123456789a\r\n000\r\nTrailer: x\r\n\r\nrest";
        let mut input = input(bytes, 2, true);
        assert_eq!(receive(&mut input, CHUNKED, 100, deadline()).unwrap(), b"abc0123456789a");
        assert_eq!(input.read_exact(4, deadline()).unwrap(), b"rest");
    }

    #[test]
    fn invalid_chunks_are_rejected() {
        for bytes in
            [&b"\r\n"[..], b"x\r\n", b"-1\r\n", b"3\r\nabcd\r\n", b"3 3\r\nabc\r\n", b"3\nabc\r\n0\r\n"]
        {
            assert_eq!(rejected_status(bytes, CHUNKED, true), Status::BadRequest, "{}", bytes.escape_ascii());
        }
        assert_eq!(rejected_status(b"65\r\n", CHUNKED, true), Status::ContentTooLarge);
        assert_eq!(rejected_status(b"11111111111111111\r\n", CHUNKED, true), Status::ContentTooLarge);
        assert_eq!(rejected_status(b"3\r\nab", CHUNKED, false), Status::RequestTimeout);
        let trailers = [&b"0\r\n"[..], &b"a: b\r\n".repeat(20)].concat();
        assert_eq!(rejected_status(&trailers, CHUNKED, true), Status::RequestHeaderFieldsTooLarge);
    }

    #[test]
    fn content_length_is_respected() {
        assert_eq!(rejected_status(b"abc", BodyLength::Known(101), true), Status::ContentTooLarge);
        assert_eq!(rejected_status(b"abc", BodyLength::Known(4), true), Status::BadRequest);
        assert_eq!(
            receive(&mut input(b"abc", 1, true), BodyLength::Known(2), 100, deadline()).unwrap(),
            b"ab"
        );
    }

    proptest! {
        #[test]
        fn chunked_body_is_independent_of_segmentation(
            chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..50), 0..8),
            piece in 1_usize..64,
        ) {
            let mut bytes = Vec::new();
            for chunk in &chunks {
                bytes.extend(format!("{:X}\r\n", chunk.len()).as_bytes());
                bytes.extend(chunk);
                bytes.extend(b"\r\n");
            }
            bytes.extend(b"0\r\n\r\n");
            let body = receive(&mut input(&bytes, piece, false), CHUNKED, 1000, deadline()).unwrap();
            prop_assert_eq!(body, chunks.concat());
        }

        #[test]
        fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1_usize..64) {
            let at_once = receive(&mut input(&bytes, 1000, true), CHUNKED, 100, deadline());
            let pieces = receive(&mut input(&bytes, piece, true), CHUNKED, 100, deadline());
            prop_assert_eq!(format!("{at_once:?}"), format!("{pieces:?}"));
        }
    }
}
