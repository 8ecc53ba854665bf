//! Image files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use hermit_interface::image::{self, Image, ImageError};
use hermit_interface::{boot_image, to_usize};

/// Maximum size of an image file in bytes, debugging information included.
const MAX_FILE_SIZE: u64 = 4 << 30;

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
    /// The file is larger than 4 GiB.
    #[error("{file} is larger than 4 GiB: that is no executable", file = .0.display())]
    TooLarge(PathBuf),
    /// The file is no image, or is not for this version of the interface.
    #[error("{file}: {source}", file = .file.display())]
    Image {
        /// Path of the file.
        file: PathBuf,
        /// Reason for which it was rejected.
        source: ImageError,
    },
}

/// Image file in memory, not checked yet.
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
        if metadata.len() > MAX_FILE_SIZE {
            return Err(FileError::TooLarge(name.to_owned()));
        }
        let mut bytes = Vec::new();
        // Growing the buffer in steps would copy it, and fragment the heap.
        bytes.try_reserve_exact(to_usize(metadata.len())).map_err(|error| failed(error.into()))?;
        file.take(MAX_FILE_SIZE).read_to_end(&mut bytes).map_err(failed)?;
        Ok(Self { name: name.to_owned(), bytes })
    }

    /// Checks the executable that the file is or, as a boot image, contains.
    ///
    /// # Errors
    ///
    /// [`FileError::Image`].
    pub fn check(&self) -> Result<Image<'_>, FileError> {
        let executable = boot_image::executable(&self.bytes).unwrap_or(&self.bytes);
        image::check(executable).map_err(|source| FileError::Image { file: self.name.clone(), source })
    }

    /// Name of the program: the last component of the path.
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
    fn check_rejects_file_that_is_no_image_and_names_it() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"#!/bin/sh\n").unwrap();
        let image = ImageFile::open(file.path()).unwrap();
        let error = image.check().unwrap_err();
        assert!(matches!(error, FileError::Image { .. }));
        assert!(error.to_string().starts_with(file.path().to_str().unwrap()));
    }

    #[test]
    fn open_names_file_that_cannot_be_read() {
        for name in ["/does/not/exist", "/"] {
            let error = ImageFile::open(Path::new(name)).unwrap_err().to_string();
            assert!(error.starts_with(&format!("cannot read {name}: ")), "{error}");
        }
    }

    #[test]
    fn open_rejects_file_above_4_gib() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(5 << 30).unwrap();
        assert!(matches!(ImageFile::open(file.path()), Err(FileError::TooLarge(_))));
    }
}
