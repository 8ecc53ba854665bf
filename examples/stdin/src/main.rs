//! Copies standard input to standard output line by line, with letters a to z in upper case, and counts the
//! bytes.
//!
//! Other bytes are unchanged: the input may be any bytes, in lines of any length.

#![forbid(unsafe_code)]

#[cfg(target_os = "hermit")]
use hermit_sys as _;

use std::io::{self, BufRead, Read, Write};

/// Maximum number of bytes of a line that are buffered. Longer lines are copied in pieces.
const MAX_CHUNK: u64 = 64 * 1024;

fn main() -> io::Result<()> {
    let count = copy(&mut io::stdin().lock(), &mut io::stdout().lock())?;
    eprintln!("{count} bytes");
    Ok(())
}

/// Copies `input` to `output`, and returns the number of bytes.
///
/// # Errors
///
/// Returns the first error of a read or write. The bytes before the error have been written.
fn copy(input: &mut impl BufRead, output: &mut impl Write) -> io::Result<u64> {
    let mut count = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = input.by_ref().take(MAX_CHUNK).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(count);
        }
        line.make_ascii_uppercase();
        output.write_all(&line)?;
        output.flush()?;
        count += u64::try_from(length).map_err(io::Error::other)?;
    }
}

#[cfg(test)]
mod tests {
    use super::copy;

    fn copy_to_vec(input: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        let count = copy(&mut &*input, &mut output).unwrap();
        assert_eq!(usize::try_from(count), Ok(input.len()));
        output
    }

    #[test]
    fn letters_are_converted_to_upper_case() {
        assert_eq!(copy_to_vec(b"Hello\nworld"), b"HELLO\nWORLD");
        assert_eq!(copy_to_vec(b""), b"");
    }

    #[test]
    fn other_bytes_are_unchanged() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(copy_to_vec(&all), all.to_ascii_uppercase());
        assert_eq!(copy_to_vec("gr\u{fc}n\r\n\0".as_bytes()), "GR\u{fc}N\r\n\0".as_bytes());
    }

    #[test]
    fn long_lines_are_copied_completely() {
        let line = vec![b'x'; 300_000];
        assert_eq!(copy_to_vec(&line), vec![b'X'; 300_000]);
    }
}
