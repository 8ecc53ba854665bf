//! Bodies: so many bytes, or chunks that say their own length (RFC 9112, sections 6 and 7).

use std::time::Instant;

use crate::input::{Failure, Input, Source};
use crate::request::Length;
use crate::status::Status;

/// Most bytes of a line that begins a chunk, extensions included, and of a field after the last one.
const MAX_LINE: usize = 1024;

/// Most fields after the last chunk.
const MAX_TRAILERS: usize = 16;

/// Receives a body of at most `most` bytes.
pub(crate) fn receive<S: Source>(
    input: &mut Input<S>,
    length: Length,
    most: usize,
    until: Instant,
) -> Result<Vec<u8>, Failure> {
    match length {
        Length::Known(size) => input.exactly(fitting(size, most)?, until),
        Length::Chunked => chunked(input, most, until),
    }
}

/// A size, if it is not too much.
fn fitting(size: u64, most: usize) -> Result<usize, Status> {
    usize::try_from(size).ok().filter(|size| *size <= most).ok_or(Status::ContentTooLarge)
}

fn chunked<S: Source>(input: &mut Input<S>, most: usize, until: Instant) -> Result<Vec<u8>, Failure> {
    let mut body = Vec::new();
    loop {
        let size = chunk_size(&input.line(MAX_LINE, until)?)?;
        if size == 0 {
            break;
        }
        let size = fitting(size, most.saturating_sub(body.len()))?;
        body.extend(input.exactly(size, until)?);
        if !input.line(0, until)?.is_empty() {
            return Err(Status::BadRequest.into());
        }
    }
    // Fields after the last chunk are of no use here.
    for _ in 0..=MAX_TRAILERS {
        if input.line(MAX_LINE, until)?.is_empty() {
            return Ok(body);
        }
    }
    Err(Status::RequestHeaderFieldsTooLarge.into())
}

/// The size in the line that begins a chunk; what comes after `;` is ignored.
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
    use crate::input::Failure;
    use crate::input::tests::{input, soon};
    use crate::request::Length;
    use crate::status::Status;

    const CHUNKED: Length = Length::Chunked;

    fn refused(bytes: &[u8], length: Length, ends: bool) -> Status {
        match receive(&mut input(bytes, 3, ends), length, 100, soon()) {
            Err(Failure::Refused(status)) => status,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn chunks_join() {
        let bytes = b"3\r\nabc\r\n0B;x=y\r\n0123456789a \r\n"; // the second is one byte too long
        assert_eq!(refused(bytes, CHUNKED, true), Status::BadRequest);
        let bytes = b"3\r\nabc\r\n0B;x=y\r\n0123456789a\r\n000\r\nTrailer: x\r\n\r\nrest";
        let mut input = input(bytes, 2, true);
        assert_eq!(receive(&mut input, CHUNKED, 100, soon()).unwrap(), b"abc0123456789a");
        assert_eq!(input.exactly(4, soon()).unwrap(), b"rest");
    }

    #[test]
    fn bad_chunks_are_refused() {
        for bytes in
            [&b"\r\n"[..], b"x\r\n", b"-1\r\n", b"3\r\nabcd\r\n", b"3 3\r\nabc\r\n", b"3\nabc\r\n0\r\n"]
        {
            assert_eq!(refused(bytes, CHUNKED, true), Status::BadRequest, "{}", bytes.escape_ascii());
        }
        assert_eq!(refused(b"65\r\n", CHUNKED, true), Status::ContentTooLarge);
        assert_eq!(refused(b"11111111111111111\r\n", CHUNKED, true), Status::ContentTooLarge);
        assert_eq!(refused(b"3\r\nab", CHUNKED, false), Status::RequestTimeout);
        let trailers = [&b"0\r\n"[..], &b"a: b\r\n".repeat(20)].concat();
        assert_eq!(refused(&trailers, CHUNKED, true), Status::RequestHeaderFieldsTooLarge);
    }

    #[test]
    fn known_lengths_are_kept_to() {
        assert_eq!(refused(b"abc", Length::Known(101), true), Status::ContentTooLarge);
        assert_eq!(refused(b"abc", Length::Known(4), true), Status::BadRequest);
        assert_eq!(receive(&mut input(b"abc", 1, true), Length::Known(2), 100, soon()).unwrap(), b"ab");
    }

    proptest! {
        #[test]
        fn however_it_is_cut_it_is_the_same(
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
            let body = receive(&mut input(&bytes, piece, false), CHUNKED, 1000, soon()).unwrap();
            prop_assert_eq!(body, chunks.concat());
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1_usize..64) {
            let whole = receive(&mut input(&bytes, 1000, true), CHUNKED, 100, soon());
            let pieces = receive(&mut input(&bytes, piece, true), CHUNKED, 100, soon());
            prop_assert_eq!(format!("{whole:?}"), format!("{pieces:?}"));
        }
    }
}
