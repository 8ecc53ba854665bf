//! Names and attributes that another program changes.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Interval of the checks for the other program's end.
const INTERVAL: Duration = Duration::from_millis(5);

/// Returns the size of the first file, and true if the second file exists.
fn seen(folder: &Path) -> io::Result<(u64, bool)> {
    Ok((fs::metadata(folder.join("file"))?.len(), folder.join("new").exists()))
}

/// Looks at two files, prints `ready`, waits until another program has changed them and creates the name
/// `done`, and prints both states.
pub(crate) fn run(folder: &Path) -> io::Result<()> {
    let before = seen(folder)?;
    println!("ready");
    // The directory's contents are requested anew each time.
    while !fs::read_dir(folder)?.any(|entry| entry.is_ok_and(|entry| entry.file_name() == "done")) {
        thread::sleep(INTERVAL);
    }
    println!("{before:?}, then {:?}", seen(folder)?);
    Ok(())
}
