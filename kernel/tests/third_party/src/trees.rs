//! walkdir, glob and ignore: names in folders, which tempfile makes.

use std::error::Error;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::{TestResult, digest, ensure, numbers};

/// Number of folders of a tree.
const FOLDERS: usize = 12;

/// Makes a tree of folders in each other and beside each other, with files of several kinds.
fn tree() -> Result<TempDir, Box<dyn Error>> {
    let root = tempfile::tempdir()?;
    let mut folder = root.path().to_owned();
    for (index, number) in numbers(11).take(FOLDERS).enumerate() {
        if index % 4 == 0 {
            folder = root.path().to_owned();
        }
        folder.push(format!("folder-{index}"));
        fs::create_dir(&folder)?;
        for (extension, size) in [("txt", number % 5_000), ("log", number % 300), ("md", 0)] {
            let size = usize::try_from(size)?;
            fs::write(folder.join(format!("file-{index}.{extension}")), "x".repeat(size))?;
        }
    }
    Ok(root)
}

/// A path below the root as text.
fn relative(path: &Path, root: &TempDir) -> String {
    path.strip_prefix(root.path()).unwrap_or(path).display().to_string()
}

/// Walks a tree in order, with the sizes of files.
pub(crate) fn walkdir() -> TestResult {
    let root = tree()?;
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(root.path()).min_depth(1).sort_by_file_name() {
        let entry = entry?;
        let size = if entry.file_type().is_file() { entry.metadata()?.len() } else { 0 };
        found.push((relative(entry.path(), &root), entry.depth(), size));
    }
    ensure(found.len() == 4 * FOLDERS, || format!("{} entries were found", found.len()))?;
    Ok(digest(&found))
}

/// Finds files by patterns.
pub(crate) fn glob() -> TestResult {
    let root = tree()?;
    let mut found = Vec::new();
    for pattern in ["*/*.txt", "**/*.log", "folder-[0-5]/**/file-?.md", "none/*"] {
        let pattern = root.path().join(pattern);
        for path in glob::glob(pattern.to_str().ok_or("the path is no text")?)? {
            found.push(relative(&path?, &root));
        }
    }
    ensure(found.len() > FOLDERS, || format!("{} paths were found", found.len()))?;
    Ok(digest(&found))
}

/// Walks a tree, except the files that its `.ignore` files exclude.
pub(crate) fn ignore() -> TestResult {
    let root = tree()?;
    fs::write(root.path().join(".ignore"), "*.log\nfolder-4/**\n!folder-4/file-4.md\n")?;
    let mut found = Vec::new();
    for entry in ignore::WalkBuilder::new(root.path()).git_global(false).build() {
        found.push(relative(entry?.path(), &root));
    }
    found.sort();
    ensure(found.iter().all(|path| !path.ends_with(".log")), || format!("{found:?}"))?;
    Ok(digest(&found))
}
