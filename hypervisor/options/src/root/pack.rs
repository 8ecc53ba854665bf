//! Packs a folder into an archive, while other processes may change the folder.
//!
//! Each folder is read through a descriptor, and each name in it is opened relative to this descriptor,
//! without following links or entering another file system ([`beneath`]). Contents and attributes of a file
//! are both read from the opened inode. So nothing outside the folder is packed, even if a process replaces a
//! name meanwhile.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Dir, Mode, OFlags, readlinkat};
use tar::{Builder, EntryType, Header};

use super::{Initramfs, RootError};
use crate::open::{beneath, reopen};

/// Maximum depth of folders. Each level takes stack space and an open descriptor, and a process may have only
/// 1,024 descriptors by default.
const MAX_DEPTH: usize = 256;

/// Minimum size in bytes of an entry in an archive: a header.
const ENTRY_SIZE: u64 = 512;

/// Packs the open folder whose path is `path`. Names are sorted, so that the same initramfs gives the same
/// archive. Owners are left out. Returns an error as soon as the archive has more than `limit` bytes.
pub(super) fn folder(folder: File, path: &Path, limit: u64) -> Result<Initramfs, RootError> {
    let mut packer = Packer {
        path,
        limit,
        archive: Builder::new(Vec::new()),
        first_names: HashMap::new(),
        left_out: Vec::new(),
    };
    let metadata = folder.metadata().map_err(|error| failed(path, error))?;
    packer.add_folder(Path::new("."), &folder, &metadata)?;
    let archive = packer.archive.into_inner().map_err(|error| failed(path, error))?;
    Ok(Initramfs { archive, left_out: packer.left_out })
}

fn failed(path: &Path, error: io::Error) -> RootError {
    RootError::Read { path: path.to_owned(), error }
}

struct Packer<'a> {
    /// Path of the folder, for messages.
    path: &'a Path,
    limit: u64,
    archive: Builder<Vec<u8>>,
    /// First name of each file that has several names, by device and inode.
    first_names: HashMap<(u64, u64), PathBuf>,
    left_out: Vec<PathBuf>,
}

impl Packer<'_> {
    /// Returns the path on the host for messages, without `.`.
    fn path_of(&self, name: &Path) -> PathBuf {
        self.path.join(name).components().collect()
    }

    /// Checks that there is room for `size` more bytes.
    fn require_room(&self, size: u64) -> Result<(), RootError> {
        let archived = self.archive.get_ref().len() as u64;
        if archived.saturating_add(size) <= self.limit {
            return Ok(());
        }
        Err(RootError::TooLarge { path: self.path.to_owned(), limit: self.limit >> 20 })
    }

    /// Adds a folder with all that it contains; `name` is its path in the initramfs.
    fn add_folder(&mut self, name: &Path, folder: &File, metadata: &Metadata) -> Result<(), RootError> {
        let path = self.path_of(name);
        let failed = |error| failed(&path, error);
        if name.components().count() > MAX_DEPTH {
            return Err(RootError::TooDeep { path, limit: MAX_DEPTH });
        }
        self.require_room(ENTRY_SIZE)?;
        let header = &mut header(metadata, EntryType::Directory);
        self.archive.append_data(header, name.join(""), io::empty()).map_err(failed)?;
        for entry in self.names(&path, folder)? {
            self.add(&name.join(OsStr::from_bytes(&entry)), folder, &entry)?;
        }
        Ok(())
    }

    /// Returns the sorted names in a folder, or an error if there are more than fit into the archive.
    fn names(&self, path: &Path, folder: &File) -> Result<Vec<Vec<u8>>, RootError> {
        let failed = |error: rustix::io::Errno| failed(path, error.into());
        let mut names = Vec::new();
        for entry in Dir::read_from(folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push(name.to_owned());
                self.require_room(names.len() as u64 * ENTRY_SIZE)?;
            }
        }
        names.sort();
        Ok(names)
    }

    /// Adds the file or folder with this name in `folder`; `name` is its path in the initramfs.
    fn add(&mut self, name: &Path, folder: &File, entry: &[u8]) -> Result<(), RootError> {
        let path = self.path_of(name);
        let inode = beneath(folder, entry, OFlags::PATH, Mode::empty()).map(File::from);
        let inode = inode.map_err(|error| failed(&path, error.into()))?;
        let metadata = inode.metadata().map_err(|error| failed(&path, error))?;
        let file_type = metadata.file_type();
        if file_type.is_dir() {
            let folder = open(&inode, OFlags::DIRECTORY).map_err(|error| failed(&path, error))?;
            return self.add_folder(name, &folder, &metadata);
        }
        if !file_type.is_file() && !file_type.is_symlink() {
            self.left_out.push(path);
            return Ok(());
        }
        self.require_room(ENTRY_SIZE)?;
        let added = if let Some(first) = self.first_name(name, &metadata) {
            self.archive.append_link(&mut header(&metadata, EntryType::Link), name, first)
        } else if file_type.is_symlink() {
            self.add_symlink(name, &inode, &metadata)
        } else {
            return self.add_file(name, &path, &inode, &metadata);
        };
        added.map_err(|error| failed(&path, error))
    }

    fn add_symlink(&mut self, name: &Path, link: &File, metadata: &Metadata) -> io::Result<()> {
        let target = readlinkat(link, "", Vec::new())?;
        let header = &mut header(metadata, EntryType::Symlink);
        self.archive.append_link(header, name, OsStr::from_bytes(target.as_bytes()))
    }

    fn add_file(
        &mut self,
        name: &Path,
        path: &Path,
        inode: &File,
        metadata: &Metadata,
    ) -> Result<(), RootError> {
        self.require_room(metadata.len())?;
        let mut contents = Vec::new();
        let file = open(inode, OFlags::NONBLOCK);
        let read = file.and_then(|file| file.take(metadata.len()).read_to_end(&mut contents));
        read.map_err(|error| failed(path, error))?;
        if contents.len() as u64 != metadata.len() {
            return Err(RootError::Changed { path: path.to_owned() });
        }
        let mut header = header(metadata, EntryType::Regular);
        header.set_size(metadata.len());
        let added = self.archive.append_data(&mut header, name, &contents[..]);
        added.map_err(|error| failed(path, error))
    }

    /// Returns the name under which the same file was added before.
    fn first_name(&mut self, name: &Path, metadata: &Metadata) -> Option<PathBuf> {
        if metadata.nlink() < 2 {
            return None;
        }
        let before = self.first_names.entry((metadata.dev(), metadata.ino()));
        let first = before.or_insert_with(|| name.to_owned());
        (first != name).then(|| first.clone())
    }
}

/// Opens a file or a folder, found as `inode`, for reading.
fn open(inode: &File, flags: OFlags) -> io::Result<File> {
    Ok(reopen(inode, OFlags::RDONLY | flags)?.into())
}

/// Returns the header of an entry whose size is 0.
fn header(metadata: &Metadata, entry_type: EntryType) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(entry_type);
    header.set_mode(metadata.mode() & 0o7777);
    header.set_mtime(u64::try_from(metadata.mtime()).unwrap_or(0));
    header.set_size(0);
    header
}
