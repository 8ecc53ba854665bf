//! Reads and sets times of files.

use std::fs::{self, File};

use filetime::{FileTime, set_file_handle_times, set_file_mtime, set_file_times};

use crate::folder::Folder;

pub fn run() -> crate_uses::Result {
    let folder = Folder::with_tree("filetime")?;
    let file = folder.path().join("a.txt");
    let (accessed, modified) =
        (FileTime::from_unix_time(1_000_000_000, 5), FileTime::from_unix_time(1_600_000_000, 123_456_789));
    set_file_times(&file, accessed, modified)?;
    let metadata = fs::metadata(&file)?;
    println!(
        "{} {}",
        FileTime::from_last_access_time(&metadata),
        FileTime::from_last_modification_time(&metadata)
    );
    set_file_mtime(&file, FileTime::from_unix_time(77, 0))?;
    println!("{:?}", FileTime::from_last_modification_time(&fs::metadata(&file)?).unix_seconds());
    set_file_handle_times(&File::options().write(true).open(&file)?, Some(FileTime::zero()), None)?;
    let metadata = fs::metadata(&file)?;
    println!(
        "{} {}",
        FileTime::from_last_access_time(&metadata),
        FileTime::from_last_modification_time(&metadata)
    );
    println!("{:?}", set_file_mtime(folder.path().join("none"), accessed).map_err(|error| error.kind()));
    Ok(())
}
