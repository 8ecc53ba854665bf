//! Temporary files and folders.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};

use tempfile::{Builder, NamedTempFile, SpooledTempFile, TempDir, tempfile};

pub fn run() -> crate_uses::Result {
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
