//! Single files: their times, and temporary ones.

use std::fs;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use filetime::{FileTime, set_file_handle_times, set_file_mtime, set_file_times};
use tempfile::{Builder, NamedTempFile, SpooledTempFile, TempDir};

use crate::folder::Folder;

/// Reads and sets times of files.
pub fn filetime() -> crate_uses::Result {
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

/// Temporary files and folders.
pub fn tempfile() -> crate_uses::Result {
    use tempfile::tempfile;

    let folder = TempDir::new()?;
    let mut unnamed = tempfile()?;
    unnamed.write_all(b"unnamed content")?;
    unnamed.seek(SeekFrom::Start(8))?;
    let mut text = String::new();
    unnamed.read_to_string(&mut text)?;
    let named = Builder::new().prefix("pre-").suffix(".txt").tempfile_in(folder.path())?;
    fs::write(named.path(), "named")?;
    let name = named.path().file_name().ok_or("no name")?.to_string_lossy().into_owned();
    println!(
        "{text} {} {}",
        name.starts_with("pre-") && name.ends_with(".txt"),
        fs::read_dir(folder.path())?.count()
    );
    let kept = folder.path().join("kept");
    named.persist(&kept)?;
    println!(
        "{:?}",
        NamedTempFile::new_in(folder.path())?.persist_noclobber(&kept).map_err(|error| error.error.kind())
    );
    println!("{:?} {}", fs::read_to_string(&kept)?, fs::read_dir(folder.path())?.count());
    let mut spooled = SpooledTempFile::new(10);
    spooled.write_all(b"short")?;
    let is_rolled = spooled.is_rolled();
    spooled.write_all(b" and longer")?;
    println!("{is_rolled} {}", spooled.is_rolled());
    let path = folder.path().to_owned();
    folder.close()?;
    println!("{}", path.exists());
    Ok(())
}
