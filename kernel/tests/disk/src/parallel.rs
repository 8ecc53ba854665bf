//! Several threads use a file at the same time.

use std::fs::OpenOptions;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::sync::Barrier;
use std::thread;

use super::pattern;

/// Size of a piece in bytes: no multiple of a disk's blocks, so that neighbours, which two threads write,
/// share one.
const PIECE: u64 = 1_000;

/// Size in bytes of one read: several blocks, and parts of two.
const READ: u64 = 10_007;

/// Fills the file with the pattern in `threads` threads, and compares it.
pub(crate) fn check(file: &str, threads: u64) -> io::Result<()> {
    let size = OpenOptions::new().read(true).open(file)?.seek(SeekFrom::End(0))?;
    together(threads, |first| write(file, size, first, threads))?;
    OpenOptions::new().write(true).open(file)?.sync_all()?;
    together(threads, |first| compare(file, size, first, threads))?;
    println!("{size} bytes are as {threads} threads wrote them");
    Ok(())
}

/// Runs an action in several threads, which get numbers and begin together.
pub(crate) fn together(threads: u64, action: impl Fn(u64) -> io::Result<()> + Sync) -> io::Result<()> {
    let (barrier, action) = (Barrier::new(usize::try_from(threads).map_err(io::Error::other)?), &action);
    let run = |number| {
        barrier.wait();
        action(number)
    };
    thread::scope(|scope| {
        let run = &run;
        let all: Vec<_> = (0..threads).map(|number| scope.spawn(move || run(number))).collect();
        all.into_iter().try_for_each(|thread| thread.join().expect("no thread panics"))
    })
}

/// Start and length of the pieces of a thread: each `threads`th, from `first` on.
fn pieces(size: u64, piece: u64, first: u64, threads: u64) -> impl Iterator<Item = (u64, u64)> {
    let starts = (first..size.div_ceil(piece)).step_by(usize::try_from(threads).unwrap_or(usize::MAX));
    starts.map(move |index| (index * piece, piece.min(size - index * piece)))
}

fn expected(start: u64, length: u64) -> Vec<u8> {
    (start..start + length).map(pattern).collect()
}

fn write(file: &str, size: u64, first: u64, threads: u64) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(file)?;
    pieces(size, PIECE, first, threads).try_for_each(|(start, length)| {
        file.seek(SeekFrom::Start(start))?;
        file.write_all(&expected(start, length))
    })
}

fn compare(file: &str, size: u64, first: u64, threads: u64) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).open(file)?;
    pieces(size, READ, first, threads).try_for_each(|(start, length)| {
        let mut bytes = vec![0; usize::try_from(length).map_err(io::Error::other)?];
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(&mut bytes)?;
        assert!(bytes == expected(start, length), "bytes from {start} on are what was written");
        Ok(())
    })
}
