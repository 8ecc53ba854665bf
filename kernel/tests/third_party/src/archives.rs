//! tar: archives of a tree, packed and unpacked, with modes, times and links. tempfile: files without names,
//! and their names.

use std::error::Error;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use tempfile::{NamedTempFile, TempDir};

use crate::{TestResult, digest, ensure, numbers};

/// Time of the last change of packed files, in seconds since the epoch.
const CHANGED: u64 = 1_234_567_890;

/// Size of the largest file in bytes.
const LARGE: usize = 200_000;

pub(crate) fn tar() -> TestResult {
    let original = TempDir::new()?;
    fill(original.path())?;
    let mut archive = tar::Builder::new(Vec::new());
    archive.follow_symlinks(false);
    archive.append_dir_all("tree", original.path())?;
    let bytes = archive.into_inner()?;
    let mut names = Vec::new();
    for entry in tar::Archive::new(bytes.as_slice()).entries()? {
        let entry = entry?;
        let header = entry.header();
        names.push((
            entry.path()?.into_owned(),
            entry.size(),
            header.mode()? & 0o700,
            header.entry_type().as_byte(),
        ));
    }
    names.sort();
    let copy = TempDir::new()?;
    tar::Archive::new(bytes.as_slice()).unpack(copy.path())?;
    let tree = copy.path().join("tree");
    let data = fs::metadata(tree.join("a/large"))?;
    ensure(data.modified()? == changed(), || format!("the time is {:?}", data.modified()))?;
    ensure(fs::read(tree.join("a/large"))? == large(), || "the contents differ".into())?;
    let link = fs::read_link(tree.join("a/link"))?;
    Ok(digest(&(names, link, fs::read_to_string(tree.join("a/link"))?)))
}

fn changed() -> std::time::SystemTime {
    UNIX_EPOCH + Duration::from_secs(CHANGED)
}

fn large() -> Vec<u8> {
    numbers(5).map(|number| number.to_le_bytes()[0]).take(LARGE).collect()
}

/// Makes a tree.
fn fill(root: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir_all(root.join("a/empty"))?;
    fs::write(root.join("a/large"), large())?;
    File::options().write(true).open(root.join("a/large"))?.set_modified(changed())?;
    let long = "long-name-".repeat(12);
    fs::write(root.join(long), "of a name that has its own header")?;
    fs::write(root.join("a/text"), "text")?;
    symlink("text", &root.join("a/link"))?;
    Ok(())
}

#[cfg(target_os = "hermit")]
use std::os::hermit::fs::symlink as system_symlink;
#[cfg(not(target_os = "hermit"))]
use std::os::unix::fs::symlink as system_symlink;

fn symlink(target: &str, link: &Path) -> std::io::Result<()> {
    system_symlink(target, link)
}

pub(crate) fn tempfile() -> TestResult {
    let mut anonymous = tempfile::tempfile()?;
    anonymous.write_all(b"without a name")?;
    anonymous.seek(SeekFrom::Start(8))?;
    let mut text = String::new();
    anonymous.read_to_string(&mut text)?;

    let folder = TempDir::new()?;
    let mut named = NamedTempFile::with_prefix_in("named-", folder.path())?;
    named.write_all(b"first")?;
    let mut again = named.reopen()?;
    again.seek(SeekFrom::End(0))?;
    again.write_all(b", second")?;
    let path = folder.path().join("kept");
    let mut file = named.persist_noclobber(&path)?;
    ensure(NamedTempFile::new_in(folder.path())?.persist_noclobber(&path).is_err(), || {
        "it was replaced".into()
    })?;
    file.write_all(b"!")?;
    let kept = fs::read_to_string(&path)?;
    NamedTempFile::new_in(folder.path())?.persist(&path)?;
    let gone = {
        let temporary = NamedTempFile::new_in(folder.path())?;
        temporary.path().to_owned()
    };
    ensure(!gone.exists(), || "a dropped file remains".into())?;
    let mut spooled = tempfile::SpooledTempFile::new(10);
    spooled.write_all(&[b'x'; 100])?;
    let is_rolled = spooled.is_rolled();
    Ok(digest(&(text, kept, fs::metadata(&path)?.len(), is_rolled, fs::read_dir(folder.path())?.count())))
}
