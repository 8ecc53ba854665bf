//! Opens files that the command line names: images, disks, archives for an initramfs, environment files,
//! folders, reports.
//!
//! An operator's path may lead through a folder that others can write: a folder that belongs to the user of a
//! jail, or a folder that a guest mounts. There, a guest can replace a file by a symbolic link or a FIFO
//! while root starts uhyve. A plain open(2) would follow the link, or wait for the other end of the FIFO.
//!
//! So an [`Opener`] resolves a path itself, one component at a time, each relative to the descriptor of the
//! previous folder. It follows a symbolic link only if no users except root and uhyve's own user can have
//! made the link, similar to Linux in sticky folders (`fs.protected_symlinks`). At the end of the path it
//! opens an `O_PATH` descriptor of the inode, which has no effect on devices or FIFOs, and compares the
//! inode's type with the expected [`Kind`]. Then it opens the same inode through this descriptor, so no other
//! file can take its place between the check and the open.
//!
//! Below a folder that is read as a whole, no link is followed at all (see [`beneath`]).
//!
//! `cargo xtask lint` finds files that are opened by other means.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};
use std::{io, mem};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, Stat, fstat, open, openat, openat2, readlinkat};
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

use crate::mount::MountConfig;

/// Maximum number of symbolic links that are followed in a path, as in Linux (path_resolution(7)).
const MAX_LINKS: usize = 40;

/// Flags of a descriptor that only refers to an inode, even if the inode is a symbolic link.
const NAME_ONLY: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Resolution of one name: below the directory, in its file system, and through no link.
const CONFINED: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_XDEV);

/// Opens or creates a file by its name in a directory, without following links or leaving the directory's
/// file system. The flags always include close-on-exec and `O_NOCTTY`. Without `O_PATH`, the open does not
/// wait for the other end of a FIFO.
///
/// # Errors
///
/// Those of openat2(2): `EXDEV` for a mount point, `ELOOP` for a link unless the flags have `O_PATH`.
pub fn beneath(directory: impl AsFd, name: &[u8], flags: OFlags, mode: Mode) -> rustix::io::Result<OwnedFd> {
    let flags = if flags.contains(OFlags::PATH) { flags } else { flags | OFlags::NOCTTY | OFlags::NONBLOCK };
    openat2(directory, name, flags | OFlags::CLOEXEC | OFlags::NOFOLLOW, mode, CONFINED)
}

/// Opens the inode that an `O_PATH` descriptor refers to, even if another file has its name by now.
///
/// # Errors
///
/// Those of open(2), and `ENOENT` where `/proc` is not mounted.
pub fn reopen(inode: impl AsFd, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let descriptor = format!("/proc/self/fd/{}", inode.as_fd().as_raw_fd());
    open(descriptor, flags | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())
}

/// Expected type of the file at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A regular file or a block device.
    Disk,
    /// A folder.
    Folder,
    /// A regular file or a folder.
    FileOrFolder,
}

impl Kind {
    fn accepts(self, found: FileType) -> bool {
        match self {
            Self::File => found == FileType::RegularFile,
            Self::Disk => matches!(found, FileType::RegularFile | FileType::BlockDevice),
            Self::Folder => found == FileType::Directory,
            Self::FileOrFolder => matches!(found, FileType::RegularFile | FileType::Directory),
        }
    }

    const fn describe(self) -> &'static str {
        match self {
            Self::File => "a file",
            Self::Disk => "a file or a block device",
            Self::Folder => "a folder",
            Self::FileOrFolder => "a file or a folder",
        }
    }
}

/// Why a path is refused, apart from errors of the host.
#[derive(Debug, thiserror::Error)]
enum Refusal {
    #[error(
        "{link} is a link in a folder that {who} can write, and may lead anywhere: name the file that is meant, or move \
         the link to a folder that only root and you can write",
        link = .link.display()
    )]
    Link { link: PathBuf, who: &'static str },
    #[error("it is {found}, not {expected}", expected = .expected.describe())]
    Kind { found: &'static str, expected: Kind },
}

impl From<Refusal> for io::Error {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal {
            Refusal::Link { .. } => io::ErrorKind::PermissionDenied,
            Refusal::Kind { expected: Kind::Folder, .. } => io::ErrorKind::NotADirectory,
            Refusal::Kind { .. } => io::ErrorKind::InvalidInput,
        };
        Self::new(kind, refusal)
    }
}

/// Device and number of a folder.
type Identity = (u64, u64);

fn identity(status: &Stat) -> Identity {
    (status.st_dev, status.st_ino)
}

/// Opens the files that the operator has named.
#[derive(Clone, Debug, Default)]
pub struct Opener {
    /// Folders that a guest can write.
    guest_writable: Vec<Identity>,
}

/// The folder of a path, and the last name in it.
#[derive(Debug)]
pub struct Place {
    /// Descriptor of the folder (`O_PATH`).
    pub folder: OwnedFd,
    /// Name in the folder, without a slash.
    pub name: OsString,
    /// `O_PATH` descriptor of the inode, which is not a link; `None` if the name does not exist.
    pub inode: Option<OwnedFd>,
}

impl Opener {
    /// Creates an opener for a machine that mounts these folders. A folder that cannot be examined is ignored
    /// here, because mounting it fails anyway.
    #[must_use]
    pub fn new(mounts: &[MountConfig]) -> Self {
        let any = Self::default();
        let writable = mounts.iter().filter(|mount| !mount.read_only);
        let folder = |mount: &MountConfig| {
            let folder = any.find(&mount.host, Kind::Folder).ok()?;
            fstat(folder).ok().map(|status| identity(&status))
        };
        Self { guest_writable: writable.filter_map(folder).collect() }
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    ///
    /// An error of the host, a link that may not be followed, or a file that is not of this `kind`.
    pub fn read(&self, path: &Path, kind: Kind) -> io::Result<File> {
        self.open(path, kind, OFlags::RDONLY)
    }

    /// Opens a path with the access of `flags`.
    ///
    /// # Errors
    ///
    /// See [`read`](Self::read).
    pub fn open(&self, path: &Path, kind: Kind, flags: OFlags) -> io::Result<File> {
        let inode = self.find(path, kind)?;
        // With `O_NONBLOCK`, the open of a regular file does not wait until a lease on the file is broken.
        // For block devices the flag has other meanings, so it is not set.
        let is_file = FileType::from_raw_mode(fstat(&inode)?.st_mode) == FileType::RegularFile;
        let flags = if is_file { flags | OFlags::NONBLOCK } else { flags };
        Ok(reopen(inode, flags)?.into())
    }

    /// Finds the inode at a path, and returns a descriptor (`O_PATH`).
    ///
    /// # Errors
    ///
    /// See [`read`](Self::read).
    pub fn find(&self, path: &Path, kind: Kind) -> io::Result<OwnedFd> {
        let inode = self.place(path)?.inode.ok_or(Errno::NOENT)?;
        require(&inode, kind)?;
        Ok(inode)
    }

    /// Finds the folder in which a path ends, so that a file can be created there.
    ///
    /// # Errors
    ///
    /// An error of the host, a link that may not be followed, or an existing file that is not a regular file.
    pub fn place_of_file(&self, path: &Path) -> io::Result<Place> {
        let place = self.place(path)?;
        place.inode.as_ref().map_or(Ok(()), |inode| require(inode, Kind::File))?;
        Ok(place)
    }

    fn place(&self, path: &Path) -> io::Result<Place> {
        let mut walk = Walk::begin(self, path)?;
        while let Some(name) = walk.rest.pop_front() {
            let inode = match openat(&walk.folder, &name, NAME_ONLY, Mode::empty()) {
                Err(Errno::NOENT) if walk.rest.is_empty() => None,
                inode => Some(inode?),
            };
            match inode {
                Some(inode) if is_link(&inode)? => walk.follow(&inode, &name)?,
                inode if walk.rest.is_empty() => return Ok(Place { folder: walk.folder, name, inode }),
                inode => walk.enter(inode.ok_or(Errno::NOENT)?, &name)?,
            }
        }
        // `/`, `.`, or a link to one of them.
        let inode = Some(openat(&walk.folder, ".", NAME_ONLY, Mode::empty())?);
        Ok(Place { folder: walk.folder, name: ".".into(), inode })
    }
}

/// State of a path resolution.
struct Walk<'a> {
    opener: &'a Opener,
    folder: OwnedFd,
    /// Path of the folder, for messages.
    path: PathBuf,
    /// Names that are left.
    rest: VecDeque<OsString>,
    /// True if the folder is one that a guest can write, or is below such a folder.
    is_guest_writable: bool,
    /// Number of links that were followed.
    links: usize,
}

impl<'a> Walk<'a> {
    fn begin(opener: &'a Opener, path: &Path) -> io::Result<Self> {
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let start = if path.is_absolute() { "/" } else { "." };
        let folder = open(start, NAME_ONLY | OFlags::DIRECTORY, Mode::empty())?;
        let (rest, is_guest_writable) = (names(path), opener.is_below_mount(&folder)?);
        let path = if path.is_absolute() { start.into() } else { PathBuf::new() };
        Ok(Self { opener, folder, path, rest, is_guest_writable, links: 0 })
    }

    /// Continues in a folder.
    fn enter(&mut self, folder: OwnedFd, name: &OsStr) -> io::Result<()> {
        self.path.push(name);
        if !self.opener.guest_writable.is_empty() {
            // Only `..` can lead out of a mount. All other names lead to a folder below.
            self.is_guest_writable = if name == ".." {
                self.opener.is_below_mount(&folder)?
            } else {
                self.is_guest_writable || self.opener.is_mount(&fstat(&folder)?)
            };
        }
        self.folder = folder;
        Ok(())
    }

    /// Continues at the target of a link, if the link may be followed.
    fn follow(&mut self, link: &OwnedFd, name: &OsStr) -> io::Result<()> {
        self.links += 1;
        if self.links > MAX_LINKS {
            return Err(Errno::LOOP.into());
        }
        let who = if self.is_guest_writable {
            Some("the guest")
        } else {
            (!is_trusted(&fstat(&self.folder)?, &fstat(link)?)).then_some("others")
        };
        if let Some(who) = who {
            return Err(Refusal::Link { link: self.path.join(name), who }.into());
        }
        let target = PathBuf::from(OsString::from_vec(readlinkat(link, "", Vec::new())?.into_bytes()));
        if target.is_absolute() {
            let root = Self::begin(self.opener, Path::new("/"))?;
            *self = Self { rest: mem::take(&mut self.rest), links: self.links, ..root };
        }
        // The rest of the path is relative to the target, so the target's names come before it.
        names(&target).into_iter().rev().for_each(|name| self.rest.push_front(name));
        Ok(())
    }
}

impl Opener {
    fn is_mount(&self, folder: &Stat) -> bool {
        self.guest_writable.contains(&identity(folder))
    }

    /// Returns true if a guest can write the folder or a folder above it.
    fn is_below_mount(&self, folder: &OwnedFd) -> io::Result<bool> {
        if self.guest_writable.is_empty() {
            return Ok(false);
        }
        let mut status = fstat(folder)?;
        let mut above = openat(folder, "..", NAME_ONLY, Mode::empty())?;
        while !self.is_mount(&status) {
            let next = fstat(&above)?;
            // At the root, `..` is the root itself.
            if identity(&next) == identity(&status) {
                return Ok(false);
            }
            status = next;
            above = openat(&above, "..", NAME_ONLY, Mode::empty())?;
        }
        Ok(true)
    }
}

/// Returns the names in a path, without `/` and `.`.
fn names(path: &Path) -> VecDeque<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(_) | Component::ParentDir => Some(component.as_os_str().to_owned()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    };
    path.components().filter_map(name).collect()
}

/// Returns true if only root or this user can have made a link in a folder: other users cannot write to the
/// folder, or the folder is sticky, such as /tmp, and the link does not belong to another user. If an
/// ordinary user owns the folder, write permission for its group is accepted, because such a group often has
/// only this user.
fn is_trusted(folder: &Stat, link: &Stat) -> bool {
    let user = geteuid();
    let is_own = |status: &Stat| status.st_uid == 0 || status.st_uid == user.as_raw();
    let mode = Mode::from_raw_mode(folder.st_mode);
    let is_user = folder.st_uid == user.as_raw() && !user.is_root();
    let is_own_group = is_user && folder.st_gid == getegid().as_raw();
    let others_write = mode.contains(Mode::WOTH) || (mode.contains(Mode::WGRP) && !is_own_group);
    is_own(folder) && (!others_write || (mode.contains(Mode::SVTX) && is_own(link)))
}

fn is_link(inode: &OwnedFd) -> rustix::io::Result<bool> {
    Ok(FileType::from_raw_mode(fstat(inode)?.st_mode) == FileType::Symlink)
}

fn require(inode: &OwnedFd, expected: Kind) -> io::Result<()> {
    let found = FileType::from_raw_mode(fstat(inode)?.st_mode);
    if expected.accepts(found) {
        return Ok(());
    }
    let found = match found {
        FileType::RegularFile => "a file",
        FileType::Directory => "a folder",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::BlockDevice => "a block device",
        FileType::CharacterDevice => "a character device",
        FileType::Symlink | FileType::Unknown => "something else",
    };
    Err(Refusal::Kind { found, expected }.into())
}

#[cfg(test)]
mod tests;
