//! Image files: reading one, and loading it into the memory of a VM.

pub mod boot;
mod reader;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use hermit_interface::boot_image;
use hermit_interface::image::{self, Image, ImageError};
use hermit_options::open::{Kind, Opener};

use self::reader::Contents;
use crate::config::MemorySize;

/// Maximum size in bytes of the parts of a file that are not loaded into the VM's memory. These are mostly
/// debugging information.
const MAX_UNLOADED: u64 = 512 << 20;

/// Maximum size of an image file in bytes, however much memory the VM has.
const MAX_FILE_SIZE: u64 = 2 << 30;

/// Why a file cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("cannot read {file}: {source}", file = .file.display())]
    Read {
        /// Path of the file.
        file: PathBuf,
        /// Error of the host.
        source: io::Error,
    },
    /// The file is larger than any image that fits into the VM's memory can be.
    #[error(
        "{file} has more than {limit} MiB: use a larger --memory (for up to 2 GiB), or strip it of debugging information",
        file = .file.display()
    )]
    TooLarge {
        /// Path of the file.
        file: PathBuf,
        /// Maximum size of the file in MiB.
        limit: u64,
    },
    /// The file is no image, or is not for this version of the interface.
    #[error("{file}: {source}", file = .file.display())]
    Image {
        /// Path of the file.
        file: PathBuf,
        /// Reason why it was rejected.
        source: ImageError,
    },
}

/// Image file in memory, not checked yet. Unneeded parts of the file were not read and are zero, and so is
/// code that need not be checked.
#[derive(Debug)]
pub struct ImageFile {
    name: PathBuf,
    contents: Contents,
    file: File,
}

impl ImageFile {
    /// Reads the file for a VM with this much memory. The file is not mapped, because another process could
    /// change a mapped file after the check, or truncate it (SIGBUS). Instead, a copy of its bytes is checked
    /// and loaded. Code is not in this copy: any code is valid, so it is copied only once, when it is loaded.
    ///
    /// # Errors
    ///
    /// See [`FileError`].
    pub fn open(opener: &Opener, name: &Path, memory: MemorySize) -> Result<Self, FileError> {
        let limit = memory.bytes().saturating_add(MAX_UNLOADED).min(MAX_FILE_SIZE);
        let read =
            opener.read(name, Kind::File).and_then(|file| Ok((reader::read_within(&file, limit)?, file)));
        let (contents, file) = read.map_err(|source| FileError::Read { file: name.to_owned(), source })?;
        let contents =
            contents.ok_or_else(|| FileError::TooLarge { file: name.to_owned(), limit: limit >> 20 })?;
        Ok(Self { name: name.to_owned(), contents, file })
    }

    /// Checks the executable. The file is the executable, or a boot image that contains it.
    ///
    /// # Errors
    ///
    /// [`FileError::Image`].
    pub fn check(&self) -> Result<Image<'_>, FileError> {
        let bytes = &self.contents.bytes[..];
        let executable = boot_image::parse(bytes).map_or(bytes, |image| image.executable);
        image::check(executable).map_err(|source| FileError::Image { file: self.name.clone(), source })
    }

    /// Returns the tar archive with the initramfs that a boot image contains; empty if there is
    /// no archive.
    #[must_use]
    pub fn initramfs(&self) -> &[u8] {
        boot_image::parse(&self.contents.bytes).map(|image| image.initramfs).unwrap_or_default()
    }

    /// Returns the file from which the executable segments are copied; `None` if the image in memory has
    /// them.
    #[must_use]
    pub fn code(&self) -> Option<&File> {
        self.contents.lacks_code.then_some(&self.file)
    }

    /// Returns the name of the program: the last component of the path.
    #[must_use]
    pub fn program(&self) -> &[u8] {
        self.name.file_name().unwrap_or(self.name.as_os_str()).as_encoded_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::{FileError, ImageFile, Opener};
    use crate::config::MemorySize;
    use std::path::Path;
    use tempfile::NamedTempFile;

    fn open(path: &Path) -> Result<ImageFile, FileError> {
        ImageFile::open(&Opener::default(), path, MemorySize::default())
    }

    #[test]
    fn check_rejects_file_that_is_no_image_and_names_it() {
        let file = NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"#!/bin/sh\n").unwrap();
        let image = open(file.path()).unwrap();
        let error = image.check().unwrap_err();
        assert!(matches!(error, FileError::Image { .. }));
        assert!(error.to_string().starts_with(file.path().to_str().unwrap()));
    }

    #[test]
    fn open_names_file_that_cannot_be_read() {
        for name in ["/does/not/exist", "/"] {
            let error = open(Path::new(name)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot read {name}: ")), "{error}");
        }
    }

    #[test]
    fn open_rejects_file_too_large_for_the_memory() {
        let file = NamedTempFile::new().unwrap();
        for (memory, size, limit) in
            [("128M", 1 << 30, 640), ("64M", 577 << 20, 576), ("1024G", 4 << 30, 2048)]
        {
            file.as_file().set_len(size).unwrap();
            let error =
                ImageFile::open(&Opener::default(), file.path(), memory.parse().unwrap()).unwrap_err();
            assert!(error.to_string().contains(&format!("more than {limit} MiB")), "{error}");
        }
    }
}
