//! Operations on trees of many files in memory.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::str;

use crate::Ticks;
use crate::counter::{per, rounds, ticks};
use crate::scratch::Scratch;

/// Number of files in a tree.
const FILES: u64 = if cfg!(test) { 200 } else { 10_000 };

/// Number of files in a folder of a tree.
const FOLDER: u64 = 100;

/// Size of a file in bytes.
const SIZE: usize = 1_000;

/// Text for which `grep` searches. Each file has the text at its end.
const NEEDLE: &str = "needle";

/// Measures in rounds. `round` gets a scratch folder, and returns the measured ticks for all files together.
/// Returns the ticks per file.
fn measured(mut round: impl FnMut(&Path) -> io::Result<u64>) -> Ticks {
    let mut failure = None;
    let ticks = rounds(|| {
        let result = Scratch::new().and_then(|scratch| round(scratch.path()));
        per(result.unwrap_or_else(|error| (failure = Some(error.to_string()), 0).1), FILES)
    });
    failure.map_or(Ok(ticks), Err)
}

/// Creates folders with files, as a program that unpacks an archive does.
fn write_tree(folder: &Path) -> io::Result<()> {
    let mut contents = vec![b'x'; SIZE - NEEDLE.len()];
    contents.extend_from_slice(NEEDLE.as_bytes());
    for outer in 0..FILES / FOLDER {
        let inner = folder.join(format!("folder-{outer}"));
        fs::create_dir(&inner)?;
        for number in 0..FOLDER {
            File::create(inner.join(format!("file-{number}")))?.write_all(&contents)?;
        }
    }
    Ok(())
}

pub(crate) fn untar() -> Ticks {
    measured(|folder| {
        let start = ticks();
        write_tree(folder)?;
        Ok(ticks() - start)
    })
}

/// Lists a folder of [`FILES`] empty files.
pub(crate) fn read_dir() -> Ticks {
    measured(|folder| {
        for number in 0..FILES {
            File::create(folder.join(format!("file-{number}")))?;
        }
        let start = ticks();
        let mut count = 0;
        for entry in fs::read_dir(folder)? {
            black_box(entry?.file_name());
            count += 1;
        }
        let ticks = ticks() - start;
        if count == FILES { Ok(ticks) } else { Err(io::Error::other("entries are missing")) }
    })
}

/// Returns the number of files below a folder that contain [`NEEDLE`].
fn grep(folder: &Path, buffer: &mut Vec<u8>) -> io::Result<u64> {
    let mut count = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            count += grep(&entry.path(), buffer)?;
            continue;
        }
        buffer.clear();
        File::open(entry.path())?.read_to_end(buffer)?;
        count += u64::from(str::from_utf8(buffer).is_ok_and(|text| text.contains(NEEDLE)));
    }
    Ok(count)
}

pub(crate) fn grep_tree() -> Ticks {
    measured(|folder| {
        write_tree(folder)?;
        let mut buffer = Vec::with_capacity(SIZE);
        let start = ticks();
        let count = grep(folder, &mut buffer)?;
        let ticks = ticks() - start;
        if count == FILES { Ok(ticks) } else { Err(io::Error::other("files do not match")) }
    })
}
