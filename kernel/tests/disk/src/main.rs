//! Reads and writes a disk, or any other file of fixed size: `disk COMMAND FILE`.
//!
//! | command | effect |
//! | --- | --- |
//! | `size` | prints the size in bytes |
//! | `read OFFSET LENGTH` | copies bytes to standard output |
//! | `write OFFSET` | writes standard input to the file, and flushes it |
//! | `check` | fills the file with a pattern in writes of odd sizes, flushes it, and compares it in reads of other sizes |
//! | `parallel THREADS` | fills the file with the pattern, each thread every so many pieces of odd sizes, and compares it in as many threads |
//! | `regions THREADS` | each thread writes and reads a region of its own, twice; then compares the file in one pass |
//! | `stat` | prints type and length as reported by `metadata`, which must be the same for path and open file |
//! | `random LENGTH` | reads a random number device and prints how many of 256 byte values occur |

#[cfg(target_os = "hermit")]
use hermit_sys as _;

mod parallel;
mod regions;

use std::env;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let result = match words[..] {
        ["size", file] => size(file),
        ["read", file, offset, length] => {
            number(offset).and_then(|position| read(file, position, number(length)?))
        }
        ["write", file, offset] => number(offset).and_then(|position| write(file, position)),
        ["check", file] => check(file),
        ["parallel", file, threads] => number(threads).and_then(|threads| parallel::check(file, threads)),
        ["regions", file, threads] => number(threads).and_then(|threads| regions::check(file, threads)),
        ["stat", file] => stat(file),
        ["random", file, length] => number(length).and_then(|length| random(file, length)),
        _ => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "usage: disk size|read|write|check|parallel|regions|stat|random FILE ...",
        )),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("disk: {error}");
            ExitCode::FAILURE
        }
    }
}

fn number(text: &str) -> io::Result<u64> {
    text.parse().map_err(|_| io::Error::new(ErrorKind::InvalidInput, format!("{text} is no number")))
}

fn size(file: &str) -> io::Result<()> {
    println!("{}", File::open(file)?.seek(SeekFrom::End(0))?);
    Ok(())
}

fn read(file: &str, offset: u64, length: u64) -> io::Result<()> {
    let mut file = File::open(file)?;
    file.seek(SeekFrom::Start(offset))?;
    let copied = io::copy(&mut file.take(length), &mut io::stdout())?;
    if copied == length { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

fn write(file: &str, offset: u64) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(file)?;
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    io::stdin().read_to_end(&mut bytes)?;
    file.write_all(&bytes)?;
    file.sync_all()
}

/// Returns the pattern's byte at an offset.
fn pattern(offset: u64) -> u8 {
    let [low, middle, high, ..] = offset.wrapping_mul(0x9e37_79b9).to_le_bytes();
    low ^ middle ^ high
}

fn check(file: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).write(true).open(file)?;
    let size = file.seek(SeekFrom::End(0))?;
    file.rewind()?;
    let expected = |start: u64, length: u64| (start..start + length).map(pattern).collect::<Vec<_>>();
    let mut position = 0;
    for length in [1, 511, 512, 513, 4096, 70_001].into_iter().cycle() {
        let length = length.min(size - position);
        if length == 0 {
            break;
        }
        file.write_all(&expected(position, length))?;
        position += length;
    }
    file.sync_all()?;
    file.rewind()?;
    let mut position = 0;
    for length in [3, 1021, 8192, 100_000].into_iter().cycle() {
        let length = length.min(size - position);
        if length == 0 {
            break;
        }
        let mut bytes = expected(0, length);
        file.read_exact(&mut bytes)?;
        assert!(bytes == expected(position, length), "bytes from {position} on are what was written");
        position += length;
    }
    assert_eq!(file.read(&mut [0; 16])?, 0, "the end is the end");
    println!("{size} bytes are as they were written");
    Ok(())
}

fn stat(file: &str) -> io::Result<()> {
    let describe = |metadata: Metadata| {
        let file_type = metadata.file_type();
        let kind = match (file_type.is_file(), file_type.is_dir(), file_type.is_symlink()) {
            (true, _, _) => "file",
            (_, true, _) => "directory",
            (_, _, true) => "link",
            _ => "device",
        };
        format!("{kind} of length {}", metadata.len())
    };
    let of_path = describe(fs::metadata(file)?);
    for other in [fs::symlink_metadata(file)?, File::open(file)?.metadata()?] {
        assert_eq!(describe(other), of_path, "metadata of the same file");
    }
    println!("{of_path}");
    Ok(())
}

fn random(file: &str, length: u64) -> io::Result<()> {
    let mut seen = [false; 256];
    let mut bytes = Vec::new();
    File::open(file)?.take(length).read_to_end(&mut bytes)?;
    bytes.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    println!("{} values", seen.iter().filter(|seen| **seen).count());
    Ok(())
}
