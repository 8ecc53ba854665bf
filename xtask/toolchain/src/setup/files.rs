//! Operations on whole folders: list, copy, remove, replace.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Lists all files below `folder`, relative to it and sorted, without build output and hidden files.
pub fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(inner) = pending.pop() {
        let path = folder.join(&inner);
        let failed = || format!("cannot read {}", path.display());
        for entry in fs::read_dir(&path).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let name = entry.file_name();
            let below = inner.join(&name);
            if name.to_string_lossy().starts_with('.') || below == Path::new("target") {
                continue;
            }
            // `is_dir` follows symbolic links, as reading the files does.
            if entry.path().is_dir() { pending.push(below) } else { files.push(below) }
        }
    }
    files.sort();
    Ok(files)
}

/// Copies all files of a folder except build output and hidden files.
pub fn copy_dir(from: &Path, to: &Path) -> Result<()> {
    for file in list(from)? {
        copy(&from.join(&file), &to.join(&file))?;
    }
    Ok(())
}

/// Copies a file, creating the folders above it.
pub(crate) fn copy(from: &Path, to: &Path) -> Result<()> {
    let failed = || format!("cannot copy {} to {}", from.display(), to.display());
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent).with_context(failed)?;
    }
    fs::copy(from, to).with_context(failed)?;
    Ok(())
}

/// Removes a folder with its contents, if it exists.
pub fn remove_dir(folder: &Path) -> Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Replaces the contents of `folder` by these files. The folder is replaced by renames, so other processes
/// see the old folder, no folder, or the new folder, but never an incomplete one.
pub(crate) fn replace_dir(folder: &Path, files: &[PathBuf]) -> Result<()> {
    let (new, old) = (folder.with_extension("new"), folder.with_extension("old"));
    remove_dir(&new)?;
    remove_dir(&old)?;
    fs::create_dir_all(&new).with_context(|| format!("cannot create {}", new.display()))?;
    for file in files {
        let name = file.file_name().with_context(|| format!("{} is no file", file.display()))?;
        copy(file, &new.join(name))?;
    }
    if folder.exists() {
        fs::rename(folder, &old).with_context(|| format!("cannot replace {}", folder.display()))?;
    }
    fs::rename(&new, folder).with_context(|| format!("cannot create {}", folder.display()))?;
    remove_dir(&old)
}

#[cfg(test)]
mod tests {
    use super::{copy_dir, list, remove_dir, replace_dir};
    use std::fs;
    use std::path::{Path, PathBuf};

    #[test]
    fn copy_dir_leaves_out_build_output() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        fs::create_dir_all(from.join("src/deep")).unwrap();
        fs::create_dir_all(from.join("target/debug")).unwrap();
        for file in ["a", "src/b", "src/deep/c", "target/debug/d", ".hidden"] {
            fs::write(from.join(file), file).unwrap();
        }
        copy_dir(&from, &to).unwrap();
        assert_eq!(list(&to).unwrap(), ["a", "src/b", "src/deep/c"].map(PathBuf::from));
        assert_eq!(fs::read_to_string(to.join("src/deep/c")).unwrap(), "src/deep/c");
        assert!(copy_dir(&dir.path().join("nowhere"), &to).is_err());
    }

    #[test]
    fn replace_dir_removes_stale_files() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, file) = (dir.path().join("lib"), dir.path().join("file"));
        fs::write(&file, "new").unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("stale"), "").unwrap();
        fs::create_dir(dir.path().join("lib.new")).unwrap();
        replace_dir(&folder, std::slice::from_ref(&file)).unwrap();
        assert_eq!(list(&folder).unwrap(), [PathBuf::from("file")]);
        assert_eq!(list(dir.path()).unwrap(), [Path::new("file"), Path::new("lib/file")]);
    }

    #[test]
    fn remove_dir_accepts_a_missing_folder() {
        remove_dir(Path::new("/nonexistent/folder")).unwrap();
    }
}
