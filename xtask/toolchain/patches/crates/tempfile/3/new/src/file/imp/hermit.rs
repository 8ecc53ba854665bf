//! Temporary files by std alone: an open file outlives its name, as on Unix.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::hermit::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use crate::util;

pub fn create_named(
    path: &Path,
    open_options: &mut OpenOptions,
    permissions: Option<&Permissions>,
) -> io::Result<File> {
    open_options.read(true).write(true).create_new(true);
    open_options.mode(permissions.map_or(0o600, PermissionsExt::mode));
    open_options.open(path)
}

pub fn create(dir: &Path) -> io::Result<File> {
    let (prefix, suffix) = (OsStr::new(".tmp"), OsStr::new(""));
    util::create_helper(dir, prefix, suffix, crate::NUM_RAND_CHARS, |path| {
        let file = create_named(&path, &mut OpenOptions::new(), None)?;
        fs::remove_file(&path)?;
        Ok(file)
    })
}

pub fn reopen(file: &File, path: &Path) -> io::Result<File> {
    let new = OpenOptions::new().read(true).write(true).open(path)?;
    let (old_data, new_data) = (file.metadata()?, new.metadata()?);
    if (old_data.dev(), old_data.ino()) != (new_data.dev(), new_data.ino()) {
        let message = "original tempfile has been replaced";
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    Ok(new)
}

pub fn persist(old_path: &Path, new_path: &Path, overwrite: bool) -> io::Result<()> {
    if overwrite {
        return fs::rename(old_path, new_path);
    }
    fs::hard_link(old_path, new_path)?;
    // The file is there; its old name may stay.
    let _ = fs::remove_file(old_path);
    Ok(())
}

pub fn keep(_path: &Path) -> io::Result<()> {
    Ok(())
}
