//! Operations on files in memory: calls with an open file, and calls with a path.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::Ticks;
use crate::counter::time;
use crate::scratch::{Scratch, root};

/// Number of calls with an open file in a round.
const COUNT: u64 = if cfg!(test) { 20 } else { 20_000 };

/// Number of calls with a path, and of pages, in a round.
const PATH_COUNT: u64 = if cfg!(test) { 5 } else { 5_000 };

/// Number of large blocks in a round.
const BLOCK_COUNT: u64 = if cfg!(test) { 2 } else { 20 };

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Size of the file of large blocks.
const LARGE: usize = if cfg!(test) { 2 * MIB } else { 32 * MIB };

/// Returns the ticks of an operation. If the operation fails, returns its error.
fn timed<T>(count: u64, mut operation: impl FnMut() -> io::Result<T>) -> Ticks {
    let mut result = Ok(());
    let mut failure = Failure { error: None, result: &mut result };
    // The closure owns the operation and the error, so that the measured loop contains nothing but the
    // operation.
    let ticks = time(count, move || {
        if let Err(error) = operation() {
            failure.set(error);
        }
    });
    result.map(|()| ticks)
}

/// The error of an operation. When this value is dropped, the error becomes the result.
#[derive(Debug)]
struct Failure<'a> {
    error: Option<io::Error>,
    result: &'a mut Result<(), String>,
}

impl Failure<'_> {
    #[cold]
    fn set(&mut self, error: io::Error) {
        self.error = Some(error);
    }
}

impl Drop for Failure<'_> {
    fn drop(&mut self) {
        if let Some(error) = self.error.take() {
            *self.result = Err(text(error));
        }
    }
}

fn text(error: io::Error) -> String {
    error.to_string()
}

/// Returns a scratch folder with a file of this size, and the file, open for reading and writing.
fn file(size: usize) -> Result<(Scratch, File), String> {
    let scratch = Scratch::new().map_err(text)?;
    let path = scratch.path().join("file");
    fs::write(&path, vec![1; size]).map_err(text)?;
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(text)?;
    Ok((scratch, file))
}

/// A file directly below the root of the files in memory. It is removed when this value is dropped.
#[derive(Debug)]
struct TopFile(std::path::PathBuf);

impl TopFile {
    fn new() -> Result<Self, String> {
        let name = format!("core_bench.{}", std::process::id());
        Ok(Self(root().map_err(text)?.join(name)))
    }

    fn create() -> Result<Self, String> {
        let file = Self::new()?;
        fs::write(&file.0, b"contents").map_err(text)?;
        Ok(file)
    }
}

impl Drop for TopFile {
    fn drop(&mut self) {
        // An error is ignored: the file may not exist.
        let _: io::Result<()> = fs::remove_file(&self.0);
    }
}

pub(crate) fn open_close() -> Ticks {
    let file = TopFile::create()?;
    timed(PATH_COUNT, || File::open(&file.0))
}

pub(crate) fn metadata() -> Ticks {
    let file = TopFile::create()?;
    timed(PATH_COUNT, || fs::metadata(&file.0))
}

pub(crate) fn create_unlink() -> Ticks {
    let file = TopFile::new()?;
    timed(PATH_COUNT, || {
        File::create(&file.0)?;
        fs::remove_file(&file.0)
    })
}

pub(crate) fn seek() -> Ticks {
    let (_scratch, mut file) = file(KIB)?;
    timed(COUNT, move || file.seek(SeekFrom::Start(1)))
}

/// Reads blocks one after the other. Continues at the start of the file after its end.
fn read(size: usize, file_size: usize, count: u64) -> Ticks {
    let (_scratch, mut file) = file(file_size)?;
    let mut block = vec![0; size];
    timed(count, move || {
        if file.read(&mut block)? < size {
            file.seek(SeekFrom::Start(0))?;
        }
        Ok(())
    })
}

/// Reads whole blocks, otherwise as [`read`]. A block may take several calls, because a call may return less
/// than a block.
fn read_whole(size: usize, count: u64) -> Ticks {
    let (_scratch, mut file) = file(LARGE)?;
    let mut block = vec![0; size];
    let mut position = 0;
    timed(count, move || {
        if position == LARGE {
            file.seek(SeekFrom::Start(0))?;
            position = 0;
        }
        position += size;
        file.read_exact(&mut block)
    })
}

/// Overwrites a file with blocks one after the other. The size of the file does not change.
fn write(size: usize, file_size: usize, count: u64) -> Ticks {
    let (_scratch, mut file) = file(file_size)?;
    let block = vec![2; size];
    let mut left = file_size;
    timed(count, move || {
        if left < size {
            file.seek(SeekFrom::Start(0))?;
            left = file_size;
        }
        left -= file.write(&block)?;
        Ok(())
    })
}

/// Writes whole blocks, otherwise as [`write`]. A block may take several calls.
fn write_whole(size: usize, count: u64) -> Ticks {
    let (_scratch, mut file) = file(LARGE)?;
    let block = vec![2; size];
    let mut position = 0;
    timed(count, move || {
        if position == LARGE {
            file.seek(SeekFrom::Start(0))?;
            position = 0;
        }
        position += size;
        file.write_all(&block)
    })
}

pub(crate) fn read_1() -> Ticks {
    read(1, MIB, COUNT)
}

pub(crate) fn write_1() -> Ticks {
    write(1, MIB, COUNT)
}

pub(crate) fn read_4k() -> Ticks {
    read(4 * KIB, LARGE, PATH_COUNT)
}

pub(crate) fn write_4k() -> Ticks {
    write(4 * KIB, LARGE, PATH_COUNT)
}

pub(crate) fn read_64k() -> Ticks {
    read_whole(64 * KIB, BLOCK_COUNT)
}

pub(crate) fn write_64k() -> Ticks {
    write_whole(64 * KIB, BLOCK_COUNT)
}

pub(crate) fn read_1m() -> Ticks {
    read_whole(MIB, BLOCK_COUNT)
}

pub(crate) fn write_1m() -> Ticks {
    write_whole(MIB, BLOCK_COUNT)
}

/// Measures `metadata` of a path with `names` names.
fn walk(names: usize) -> Ticks {
    let scratch = Scratch::new().map_err(text)?;
    let mut path = scratch.path().to_owned();
    while path.components().count() <= names {
        path.push("name");
    }
    fs::create_dir_all(&path).map_err(text)?;
    // One more than the names, because the root counts as a component.
    let path: std::path::PathBuf = path.components().take(names + 1).collect();
    let path: &Path = &path;
    timed(PATH_COUNT, || fs::metadata(path))
}

pub(crate) fn walk_1() -> Ticks {
    walk(1)
}

pub(crate) fn walk_4() -> Ticks {
    walk(4)
}

pub(crate) fn walk_16() -> Ticks {
    walk(16)
}
