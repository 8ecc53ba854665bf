//! Packing of a folder.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use tar::{Builder, EntryType, Header};

use super::{RootError, RootTree};

/// Packs a folder: names in order, so that the same tree gives the same archive; owners are left out. It ends when the
/// archive has more than `limit` bytes.
pub(super) fn folder(folder: &Path, limit: u64) -> Result<RootTree, RootError> {
    let mut packer = Packer {
        folder,
        limit,
        archive: Builder::new(Vec::new()),
        first_names: HashMap::new(),
        left_out: Vec::new(),
    };
    packer.add(Path::new("."))?;
    let archive = packer.archive.into_inner().map_err(|error| failed(folder, error))?;
    Ok(RootTree { archive, left_out: packer.left_out })
}

fn failed(path: &Path, error: io::Error) -> RootError {
    RootError::Read { path: path.to_owned(), error }
}

struct Packer<'a> {
    folder: &'a Path,
    limit: u64,
    archive: Builder<Vec<u8>>,
    /// First name of each file with several ones, by device and inode.
    first_names: HashMap<(u64, u64), PathBuf>,
    left_out: Vec<PathBuf>,
}

impl Packer<'_> {
    /// Adds a file, or a folder with all that it contains; `name` is its path in the tree.
    fn add(&mut self, name: &Path) -> Result<(), RootError> {
        // Without `.` in paths for messages.
        let path: PathBuf = self.folder.join(name).components().collect();
        let metadata = if name == Path::new(".") { fs::metadata(&path) } else { fs::symlink_metadata(&path) };
        let metadata = metadata.map_err(|error| failed(&path, error))?;
        let file_type = metadata.file_type();
        if file_type.is_dir() {
            return self.add_folder(name, &path, &metadata);
        }
        if file_type.is_socket()
            || file_type.is_fifo()
            || file_type.is_block_device()
            || file_type.is_char_device()
        {
            self.left_out.push(path);
            return Ok(());
        }
        let added = if let Some(first) = self.first_name(name, &metadata) {
            self.archive.append_link(&mut header(&metadata, EntryType::Link), name, first)
        } else if file_type.is_symlink() {
            let target = fs::read_link(&path).map_err(|error| failed(&path, error))?;
            self.archive.append_link(&mut header(&metadata, EntryType::Symlink), name, target)
        } else {
            return self.add_file(name, path, &metadata);
        };
        added.map_err(|error| failed(&path, error))
    }

    fn add_folder(&mut self, name: &Path, path: &Path, metadata: &Metadata) -> Result<(), RootError> {
        let failed = |error| failed(path, error);
        let header = &mut header(metadata, EntryType::Directory);
        self.archive.append_data(header, name.join(""), io::empty()).map_err(failed)?;
        let entries = fs::read_dir(path).map_err(failed)?;
        let names: io::Result<Vec<OsString>> = entries.map(|entry| Ok(entry?.file_name())).collect();
        let mut names = names.map_err(failed)?;
        names.sort();
        names.iter().try_for_each(|entry| self.add(&name.join(entry)))
    }

    fn add_file(&mut self, name: &Path, path: PathBuf, metadata: &Metadata) -> Result<(), RootError> {
        let archived = self.archive.get_ref().len() as u64;
        if archived.saturating_add(metadata.len()) > self.limit {
            return Err(RootError::TooLarge { path: self.folder.to_owned(), limit: self.limit >> 20 });
        }
        let mut contents = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(metadata.len()).read_to_end(&mut contents));
        read.map_err(|error| failed(&path, error))?;
        if contents.len() as u64 != metadata.len() {
            return Err(RootError::Changed { path });
        }
        let mut header = header(metadata, EntryType::Regular);
        header.set_size(metadata.len());
        let added = self.archive.append_data(&mut header, name, &contents[..]);
        added.map_err(|error| failed(&path, error))
    }

    /// The name under which the same file was added before.
    fn first_name(&mut self, name: &Path, metadata: &Metadata) -> Option<PathBuf> {
        if metadata.nlink() < 2 {
            return None;
        }
        let before = self.first_names.entry((metadata.dev(), metadata.ino()));
        let first = before.or_insert_with(|| name.to_owned());
        (first != name).then(|| first.clone())
    }
}

/// The header of an entry without size.
fn header(metadata: &Metadata, entry_type: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(entry_type);
    header.set_mode(metadata.mode() & 0o7777);
    header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0));
    header.set_size(0);
    header
}
