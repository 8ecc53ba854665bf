//! memmap2: maps of a file that are read, changed and written back, at random.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::process::ExitCode;

use memmap2::{Mmap, MmapMut, MmapOptions};

use crate::{TestResult, digest, ensure, numbers};

/// Argument by which [`write_at_exit`] is run.
pub(crate) const EXIT: &str = "map-at-exit";

/// Size of the file in bytes: more than is written back at a time, and no whole number of pages.
const SIZE: usize = 300_001;

/// Number of rounds, in which the file is changed once and read in three ways.
const ROUNDS: u32 = 60;

/// Maps a part of a file, as `f` says.
fn map<T>(f: impl FnOnce() -> io::Result<T>) -> Result<T, String> {
    f().map_err(|error| format!("memmap2: {error}"))
}

#[expect(unsafe_code, reason = "memmap2 has no safe function for files")]
fn part(file: &File, offset: usize, length: usize) -> Result<Mmap, String> {
    // SAFETY: the file has no name, and is not written to while this map is in use.
    map(|| unsafe { MmapOptions::new().offset(offset as u64).len(length).map(file) })
}

#[expect(unsafe_code, reason = "memmap2 has no safe function for files")]
fn private(file: &File) -> Result<MmapMut, String> {
    // SAFETY: the file has no name, and is not written to while this map is in use.
    map(|| unsafe { MmapOptions::new().map_copy(file) })
}

#[expect(unsafe_code, reason = "memmap2 has no safe function for files")]
fn shared(file: &File) -> Result<MmapMut, String> {
    // SAFETY: the file is not written to while this map is in use, but by maps of other parts.
    map(|| unsafe { MmapMut::map_mut(file) })
}

/// The contents that the file has for those that read it.
fn contents(mut file: &File) -> io::Result<Vec<u8>> {
    let mut contents = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut contents)?;
    Ok(contents)
}

/// Two maps of a file have each byte of it in turn, in pieces of all sizes: what one changes is not undone by
/// the other one.
pub(crate) fn memmap2() -> TestResult {
    let mut file = tempfile::tempfile()?;
    let mut numbers = numbers(77);
    let mut next = |limit: usize| numbers.next().unwrap_or_default() as usize % limit;
    let mut expected: Vec<u8> = (0..SIZE).map(|_| next(256).to_le_bytes()[0]).collect();
    file.write_all(&expected)?;
    for round in 0..ROUNDS {
        let mut maps = [shared(&file)?, shared(&file)?];
        let mut start = 0;
        while start < SIZE {
            let bits = next(18);
            let end = SIZE.min(start + 1 + next(1 << bits));
            if let (map, Some(fill)) = (&mut maps[next(2)], [None, Some(0), Some(1)][next(3)]) {
                map[start..end].fill(fill);
                expected[start..end].fill(fill);
            }
            start = end;
        }
        let [one, two] = maps;
        match round % 3 {
            0 => one.flush_range(next(SIZE), 0)?,
            1 => two.flush()?,
            _ => two.flush_async()?,
        }
        drop((one, two));
        ensure(contents(&file)? == expected, || format!("memmap2: round {round}"))?;
        let (offset, length) = (next(SIZE), next(SIZE));
        let map = part(&file, offset, length)?;
        let end = SIZE.min(offset + length);
        ensure(map[..end - offset] == expected[offset..end], || format!("memmap2: part of round {round}"))?;
        let mut private = private(&file)?;
        private.fill(7);
        private.flush()?;
        ensure(contents(&file)? == expected, || format!("memmap2: private map of round {round}"))?;
    }
    Ok(digest(&expected))
}

/// Changes the file at a path by a map that is neither flushed nor dropped, and exits.
pub(crate) fn write_at_exit(path: &str) -> ExitCode {
    let change = || -> Result<(), Box<dyn Error>> {
        let file = OpenOptions::new().read(true).write(true).open(path)?;
        let map = Box::leak(Box::new(shared(&file)?));
        map[2..5].copy_from_slice(b"map");
        Ok(())
    };
    match change() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("failed: {error}");
            ExitCode::FAILURE
        }
    }
}
