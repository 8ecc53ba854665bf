//! A folder that is removed while it is in use.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::Duration;

/// Linux's number of `EIO`, which has no [`io::ErrorKind`] of its own.
const EIO: i32 = 5;

/// Interval of the checks for the removal of the folder.
const INTERVAL: Duration = Duration::from_millis(5);

/// Prints `ready`, and waits until another program removes the folder. Returns true if all calls then fail
/// with `EIO`, except calls on an open file.
pub(crate) fn run(folder: &Path) -> io::Result<bool> {
    let mut file = File::options().create_new(true).read(true).write(true).open(folder.join("open"))?;
    file.write_all(b"before")?;
    println!("ready");
    while error(fs::metadata(folder.join("open"))) != Some(EIO) {
        thread::sleep(INTERVAL);
    }
    let name = folder.join("name");
    let errors = [
        ("create", error(File::create(&name))),
        ("create_dir", error(fs::create_dir(&name))),
        ("open", error(File::open(folder.join("open")))),
        ("remove_file", error(fs::remove_file(folder.join("open")))),
        ("rename", error(fs::rename(folder.join("open"), &name))),
        ("symlink_metadata", error(fs::symlink_metadata(&name))),
    ];
    let mut is_expected = true;
    for (call, error) in errors.into_iter().filter(|(_, error)| *error != Some(EIO)) {
        println!("{call}: {error:?}");
        is_expected = false;
    }
    file.write_all(b" and after")?;
    file.rewind()?;
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    println!("{text}");
    Ok(is_expected && text == "before and after")
}

/// Number of a call's error.
fn error<T>(result: io::Result<T>) -> Option<i32> {
    result.err()?.raw_os_error()
}
