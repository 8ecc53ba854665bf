//! More threads than a disk has buffers read and write a file at the same time, each in a region of its own.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

use super::parallel::together;
use super::pattern;

/// Number of times that each thread writes its region, and reads it.
const ROUNDS: u64 = 2;

/// Size of a write in bytes: several blocks, and parts of two.
const WRITE: u64 = 20_011;

/// Size of a read in bytes.
const READ: u64 = 9_001;

/// Size of a read of the last pass in bytes.
const LAST_READ: u64 = 100_003;

/// Fills the file in as many threads as `threads`: each writes its region and reads it, some times. Then
/// compares the file in one pass.
pub(crate) fn check(file: &str, threads: u64) -> io::Result<()> {
    let size = File::open(file)?.seek(SeekFrom::End(0))?;
    let length = size / threads.max(1);
    together(threads, |number| {
        let end = if number + 1 == threads { size } else { (number + 1) * length };
        let mut file = OpenOptions::new().read(true).write(true).open(file)?;
        (1..=ROUNDS).try_for_each(|round| {
            write(&mut file, number * length, end, round)?;
            compare(&mut file, number * length, end, round, READ)
        })
    })?;
    let mut file = OpenOptions::new().read(true).write(true).open(file)?;
    file.sync_all()?;
    compare(&mut file, 0, size, ROUNDS, LAST_READ)?;
    println!("{size} bytes are as {threads} threads wrote their regions");
    Ok(())
}

/// Bytes at an offset that are written in a round: the pattern's of the last round, so the others differ.
fn expected(start: u64, length: u64, round: u64) -> Vec<u8> {
    let shift = (ROUNDS - round) * 7_919;
    (start..start + length).map(|offset| pattern(offset + shift)).collect()
}

fn pieces(start: u64, end: u64, size: u64) -> impl Iterator<Item = (u64, u64)> {
    let step = usize::try_from(size).unwrap_or(usize::MAX);
    (start..end).step_by(step).map(move |position| (position, size.min(end - position)))
}

fn write(file: &mut File, start: u64, end: u64, round: u64) -> io::Result<()> {
    pieces(start, end, WRITE).try_for_each(|(position, length)| {
        file.seek(SeekFrom::Start(position))?;
        file.write_all(&expected(position, length, round))
    })
}

fn compare(file: &mut File, start: u64, end: u64, round: u64, size: u64) -> io::Result<()> {
    pieces(start, end, size).try_for_each(|(position, length)| {
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.seek(SeekFrom::Start(position))?;
        file.read_exact(&mut bytes)?;
        let expected = expected(position, length, round);
        let other = bytes.iter().zip(&expected).position(|(byte, expected)| byte != expected);
        other.map_or(Ok(()), |index| {
            let text = format!("byte {index} of {length} from {position} on is not that of round {round}");
            Err(io::Error::new(io::ErrorKind::InvalidData, text))
        })
    })
}
