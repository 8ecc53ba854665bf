//! Locks of files.

use fs4::{FileExt, TryLockError};
use std::fs::OpenOptions;

pub fn run() -> crate_uses::Result {
    let path = std::env::temp_dir().join(format!("fs4-use-{}", std::process::id()));
    let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
    let (one, two) = (open(), open());
    FileExt::lock_shared(&one).unwrap();
    FileExt::lock_shared(&two).unwrap();
    println!("would block {}", matches!(FileExt::try_lock(&one), Err(TryLockError::WouldBlock)));
    FileExt::unlock(&one).unwrap();
    FileExt::unlock(&two).unwrap();
    FileExt::lock(&two).unwrap();
    let waiter = std::thread::spawn(move || FileExt::lock(&one).map(|()| one));
    FileExt::allocate(&two, 5000).unwrap();
    println!("length {}", two.metadata().unwrap().len());
    FileExt::unlock(&two).unwrap();
    let one = waiter.join().unwrap().unwrap();
    println!("would block {}", matches!(FileExt::try_lock_shared(&two), Err(TryLockError::WouldBlock)));
    drop(one);
    FileExt::try_lock(&two).unwrap();
    Ok(std::fs::remove_file(&path)?)
}
