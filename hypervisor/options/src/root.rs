//! The initramfs of a guest: the value of `--root`, a folder or a tar archive.

mod pack;

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hermit_interface::tar::{self, TarError};

use crate::open::{Kind, Opener};

/// An initramfs as a tar archive.
#[derive(Debug)]
pub struct Initramfs {
    /// The archive, whose headers have been checked.
    pub archive: Vec<u8>,
    /// Paths of sockets, devices and FIFOs, which are left out because a guest cannot have them.
    pub left_out: Vec<PathBuf>,
}

/// Why a folder or file cannot be the initramfs.
#[derive(Debug, thiserror::Error)]
pub enum RootError {
    /// A file or folder cannot be read.
    #[error("--root: cannot read {path}: {error}", path = .path.display())]
    Read {
        /// Path of the file or folder.
        path: PathBuf,
        /// Error of the host.
        error: io::Error,
    },
    /// A file has become shorter while it was read.
    #[error("--root: {path} has changed while it was read", path = .path.display())]
    Changed {
        /// Path of the file.
        path: PathBuf,
    },
    /// A folder is nested too deeply in the folder that is packed.
    #[error("--root: {path} is more than {limit} folders deep", path = .path.display())]
    TooDeep {
        /// Path of the folder.
        path: PathBuf,
        /// Maximum depth.
        limit: usize,
    },
    /// The file is no valid tar archive.
    #[error("--root: {path} is no tar archive that can be read: {error}", path = .path.display())]
    Archive {
        /// Path of the file.
        path: PathBuf,
        /// Error in the archive.
        error: TarError,
    },
    /// The initramfs is larger than the memory.
    #[error(
        "--root: {path} has more than {limit} MiB, the memory of the machine: use a larger --memory",
        path = .path.display()
    )]
    TooLarge {
        /// Path of the folder or file.
        path: PathBuf,
        /// Size of the memory in MiB.
        limit: u64,
    },
}

impl Initramfs {
    /// Reads an archive, or packs a folder, for a machine with `memory` bytes.
    ///
    /// # Errors
    ///
    /// See [`RootError`].
    pub fn load(opener: &Opener, path: &Path, memory: u64) -> Result<Self, RootError> {
        let read = |error| RootError::Read { path: path.to_owned(), error };
        let file = opener.read(path, Kind::FileOrFolder).map_err(read)?;
        let initramfs = if file.metadata().map_err(read)?.is_dir() {
            pack::folder(file, path, memory)?
        } else {
            let mut archive = Vec::new();
            file.take(memory + 1).read_to_end(&mut archive).map_err(read)?;
            Self { archive, left_out: Vec::new() }
        };
        if initramfs.archive.len() as u64 > memory {
            return Err(RootError::TooLarge { path: path.to_owned(), limit: memory >> 20 });
        }
        let checked = tar::check(&initramfs.archive);
        checked.map_err(|error| RootError::Archive { path: path.to_owned(), error })?;
        Ok(initramfs)
    }

    /// Makes the checks of [`Self::load`], but does not pack a folder.
    ///
    /// # Errors
    ///
    /// See [`RootError`].
    pub fn check(opener: &Opener, path: &Path, memory: u64) -> Result<(), RootError> {
        let read = |error| RootError::Read { path: path.to_owned(), error };
        let file = opener.read(path, Kind::FileOrFolder).map_err(read)?;
        if file.metadata().map_err(read)?.is_dir() {
            Ok(())
        } else {
            Self::load(opener, path, memory).map(drop)
        }
    }

    /// Returns messages about the files that are left out.
    pub fn notes(&self) -> impl Iterator<Item = String> {
        let note = |path: &PathBuf| {
            format!("note: --root leaves {} out: it is neither file nor folder nor link", path.display())
        };
        self.left_out.iter().map(note)
    }
}

#[cfg(test)]
mod tests;
