//! Many threads at once, and a file system that is full.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::thread;

/// Number of threads.
const THREADS: usize = 8;

/// Rounds of each thread.
const ROUNDS: usize = 200;

/// Sizes of the records, in bytes: in a page, and over several.
const SIZES: [usize; 4] = [10, 700, 5_000, 20_000];

/// Runs all checks in a folder.
pub(crate) fn run(folder: &Path) -> io::Result<()> {
    appends_are_whole(folder)?;
    names_are_consistent(folder)?;
    if cfg!(target_os = "hermit") {
        full_file_system_keeps_what_it_has(folder)?;
    }
    Ok(())
}

fn check(condition: bool, what: &str) -> io::Result<()> {
    if condition { Ok(()) } else { Err(io::Error::other(what)) }
}

/// Runs an action in threads.
fn in_threads(action: impl Fn(usize) -> io::Result<()> + Sync) -> io::Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                scope.spawn({
                    let action = &action;
                    move || action(thread)
                })
            })
            .collect();
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(io::Error::other("panic"))))
    })
}

/// All threads append records to one file, each through its own open file description or a shared one. No
/// record is torn, lost or duplicated.
fn appends_are_whole(folder: &Path) -> io::Result<()> {
    let path = folder.join("log");
    let open = || OpenOptions::new().create(true).append(true).open(&path);
    let shared = open()?;
    in_threads(|thread| {
        let mut own = open()?;
        for round in 0..ROUNDS {
            let size = SIZES[(thread + round) % SIZES.len()];
            // A record: its size, then the letter of its thread.
            let letter = char::from(b'a' + u8::try_from(thread).map_err(io::Error::other)?);
            let record = format!("{size:6}{}", letter.to_string().repeat(size));
            let written = if round % 2 == 0 {
                own.write(record.as_bytes())?
            } else {
                (&shared).write(record.as_bytes())?
            };
            check(written == record.len(), "a record was written in part")?;
        }
        Ok(())
    })?;
    let log = fs::read_to_string(&path)?;
    let (mut rest, mut counts) = (log.as_str(), [0; THREADS]);
    while let Some((size, behind)) = rest.split_at_checked(6) {
        let size: usize = size.trim().parse().map_err(io::Error::other)?;
        let (record, next) =
            behind.split_at_checked(size).ok_or_else(|| io::Error::other("a torn record"))?;
        let first = record.bytes().next().unwrap_or(0);
        check(record.bytes().all(|byte| byte == first), "a mixed record")?;
        counts[usize::from(first - b'a')] += 1;
        rest = next;
    }
    check(counts == [ROUNDS; THREADS], "records are lost")?;
    fs::remove_file(path)
}

/// Threads create, rename, read and remove files of their own and of all in one directory.
fn names_are_consistent(folder: &Path) -> io::Result<()> {
    let folder = folder.join("names");
    fs::create_dir(&folder)?;
    in_threads(|thread| {
        for round in 0..ROUNDS {
            let (own, moved) = (folder.join(format!("{thread}")), folder.join(format!("{thread}.moved")));
            let contents = format!("{thread} {round}").repeat(1 + round * 20);
            fs::write(&own, &contents)?;
            fs::rename(&own, &moved)?;
            check(fs::read_to_string(&moved)? == contents, "other contents")?;
            // All threads replace this file. From its creation on, it always exists and is complete.
            fs::rename(&moved, folder.join("shared"))?;
            let shared = fs::read_to_string(folder.join("shared"))?;
            let mut words = shared.split_whitespace();
            check(words.next().is_some_and(|first| first.len() == 1), "a file that is not whole")?;
            for entry in fs::read_dir(&folder)? {
                check(!entry?.file_name().is_empty(), "an entry without a name")?;
            }
        }
        Ok(())
    })?;
    let left: Vec<_> = fs::read_dir(&folder)?.collect::<io::Result<_>>()?;
    check(left.len() == 1, "other files than one are left")?;
    fs::remove_dir_all(folder)
}

/// Fills the file system several times. Data written before stays intact, and removing the file frees its
/// memory.
pub(crate) fn full_file_system_keeps_what_it_has(folder: &Path) -> io::Result<()> {
    fs::write(folder.join("before"), "kept")?;
    let path = folder.join("big");
    let block = vec![7; 1 << 20];
    let mut sizes = Vec::new();
    for _ in 0..5 {
        let mut file = File::options().create_new(true).read(true).write(true).open(&path)?;
        let error = loop {
            if let Err(error) = file.write_all(&block) {
                break error;
            }
        };
        check(error.kind() == io::ErrorKind::StorageFull, "another error than a full file system")?;
        sizes.push(file.metadata()?.len());
        file.rewind()?;
        let mut first = [0; 10];
        file.read_exact(&mut first)?;
        check(first == [7; 10], "other contents")?;
        check(fs::read_to_string(folder.join("before"))? == "kept", "what was written before is lost")?;
        fs::remove_file(&path)?;
    }
    println!("bytes until the file system was full: {sizes:?}");
    check(sizes.iter().all(|size| size.abs_diff(sizes[0]) <= sizes[0] / 20), "memory was not given back")?;
    fs::remove_file(folder.join("before"))
}
