//! Copies its input to its output line by line, the letters a to z in capitals, and counts the bytes.
//!
//! Every other byte goes through as it is, so the input may be anything, in lines of any length.

#![forbid(unsafe_code)]

#[cfg(target_os = "hermit")]
use hermit_sys as _;

use std::io::{self, BufRead, Read, Write};

/// How much of a line is held at most before it goes out.
const PIECE: u64 = 64 * 1024;

fn main() -> io::Result<()> {
    let count = copy(&mut io::stdin().lock(), &mut io::stdout().lock())?;
    eprintln!("{count} bytes");
    Ok(())
}

/// Copies everything and returns how many bytes that were.
///
/// # Errors
///
/// The first error of a read or write; what came before it has been written.
fn copy(input: &mut impl BufRead, output: &mut impl Write) -> io::Result<u64> {
    let mut count = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = input.by_ref().take(PIECE).read_until(b'\n', &mut line)?;
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

    fn copied(input: &[u8]) -> Vec<u8> {
        let mut output = Vec::new();
        let count = copy(&mut &*input, &mut output).unwrap();
        assert_eq!(usize::try_from(count), Ok(input.len()));
        output
    }

    #[test]
    fn letters_become_capitals() {
        assert_eq!(copied(b"Hello\nworld"), b"HELLO\nWORLD");
        assert_eq!(copied(b""), b"");
    }

    #[test]
    fn other_bytes_stay() {
        let all: Vec<u8> = (0..=u8::MAX).collect();
        assert_eq!(copied(&all), all.to_ascii_uppercase());
        assert_eq!(copied("gr\u{fc}n\r\n\0".as_bytes()), "GR\u{fc}N\r\n\0".as_bytes());
    }

    #[test]
    fn long_lines_go_through_whole() {
        let line = vec![b'x'; 300_000];
        assert_eq!(copied(&line), vec![b'X'; 300_000]);
    }
}
