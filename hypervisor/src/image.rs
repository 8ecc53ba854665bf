//! Images from files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hermit_interface::image::{self, Image, ImageError};
use hermit_interface::to_usize;

/// No image's file is larger, debugging information included.
const MAX_FILE: u64 = 4 << 30;

/// Why a file cannot be booted.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {file}: {source}", file = .file.display())]
    Read {
        /// Its name.
        file: PathBuf,
        /// What the host says.
        source: io::Error,
    },
    /// It is larger than any image.
    #[error("{file} is larger than 4 GiB: that is no image", file = .0.display())]
    TooLarge(PathBuf),
    /// It is no image, or not one for this hypervisor.
    #[error("{file}: {source}", file = .file.display())]
    Image {
        /// Its name.
        file: PathBuf,
        /// What is wrong with it.
        source: ImageError,
    },
}

/// The bytes of a file that is an image.
#[derive(Debug)]
pub struct ImageFile {
    name: PathBuf,
    bytes: Vec<u8>,
}

impl ImageFile {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// See [`FileError`].
    pub fn open(name: &Path) -> Result<Self, FileError> {
        let failed = |source| FileError::Read { file: name.to_owned(), source };
        let file = File::open(name).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if metadata.len() > MAX_FILE {
            return Err(FileError::TooLarge(name.to_owned()));
        }
        let mut bytes = Vec::new();
        // Room for all of it: growing bit by bit costs time, and leaves holes in the heap.
        bytes.try_reserve_exact(to_usize(metadata.len())).map_err(|error| failed(error.into()))?;
        file.take(MAX_FILE).read_to_end(&mut bytes).map_err(failed)?;
        Ok(Self { name: name.to_owned(), bytes })
    }

    /// The image in it.
    ///
    /// # Errors
    ///
    /// [`FileError::Image`].
    pub fn check(&self) -> Result<Image<'_>, FileError> {
        image::check(&self.bytes).map_err(|source| FileError::Image { file: self.name.clone(), source })
    }

    /// The name by which the program is called.
    #[must_use]
    pub fn program(&self) -> &[u8] {
        self.name.file_name().unwrap_or(self.name.as_os_str()).as_encoded_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::{FileError, ImageFile};
    use std::path::Path;

    #[test]
    fn a_file_that_is_no_image_is_refused_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"#!/bin/sh\n").unwrap();
        let image = ImageFile::open(file.path()).unwrap();
        let error = image.check().unwrap_err();
        assert!(matches!(error, FileError::Image { .. }));
        assert!(error.to_string().starts_with(file.path().to_str().unwrap()));
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for name in ["/does/not/exist", "/"] {
            let error = ImageFile::open(Path::new(name)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot read {name}: ")), "{error}");
        }
    }

    #[test]
    fn a_large_file_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(5 << 30).unwrap();
        assert!(matches!(ImageFile::open(file.path()), Err(FileError::TooLarge(_))));
    }
}
