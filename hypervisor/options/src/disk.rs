//! Disks: the value of `--block`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::fs::OFlags;

use crate::open::{Kind, Opener};
use crate::rate::RateLimits;

/// Size of a sector in bytes (virtio 1.2 §5.2.4). The size of a disk must be a multiple of it.
pub const SECTOR_SIZE: u64 = 512;

/// A file of the host as a disk of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskConfig {
    /// Raw disk image, or a block device.
    pub file: PathBuf,
    /// True if the guest cannot write to it.
    pub read_only: bool,
    /// Limits of bytes and requests per second.
    pub limits: RateLimits,
}

/// Why a file cannot be a disk.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The file cannot be opened, or its size is unknown.
    #[error("cannot open the disk {file}: {source}", file = .file.display())]
    Open {
        /// Path of the file.
        file: PathBuf,
        /// Error of the host.
        source: io::Error,
    },
    /// The size of the file is no multiple of [`SECTOR_SIZE`].
    #[error(
        "the disk {file} has {size} bytes, no multiple of {SECTOR_SIZE}: extend it with `truncate -s %{SECTOR_SIZE} {file}`",
        file = .file.display()
    )]
    Size {
        /// Path of the file.
        file: PathBuf,
        /// Size in bytes.
        size: u64,
    },
}

impl DiskConfig {
    /// Returns the value of `--block` that [`FromStr`] parses into this configuration.
    #[must_use]
    pub fn to_argument(&self) -> OsString {
        let mut text = self.file.clone().into_os_string();
        text.push(if self.read_only { ":ro" } else { "" });
        let RateLimits { bytes, operations } = self.limits;
        bytes.iter().for_each(|rate| text.push(format!(",bps={rate}")));
        operations.iter().for_each(|rate| text.push(format!(",iops={rate}")));
        text
    }

    /// Opens the file, for writing unless the disk is read-only, and checks that it consists of whole
    /// sectors.
    ///
    /// # Errors
    ///
    /// See [`DiskError`].
    pub fn open(&self, opener: &Opener) -> Result<File, DiskError> {
        let flags = if self.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        let opened = opener.open(&self.file, Kind::Disk, flags);
        let mut disk = opened.map_err(|source| DiskError::Open { file: self.file.clone(), source })?;
        check_size(&mut disk, &self.file)?;
        Ok(disk)
    }
}

/// Checks that an opened disk consists of whole sectors. Moves the file's offset.
fn check_size(disk: &mut File, file: &Path) -> Result<(), DiskError> {
    // Seeks to the end, because stat(2) reports the size of a block device as 0.
    let size = disk.seek(SeekFrom::End(0));
    let size = size.map_err(|source| DiskError::Open { file: file.to_owned(), source })?;
    if size % SECTOR_SIZE != 0 {
        return Err(DiskError::Size { file: file.to_owned(), size });
    }
    Ok(())
}

impl FromStr for DiskConfig {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut rest, mut limits) = (text, RateLimits::default());
        // Parsed from the end, so that the file's name may have commas.
        while let Some((before, option)) = rest.rsplit_once(',') {
            match option.split_once('=') {
                Some(("bps", rate)) => limits.set_bytes(rate)?,
                Some(("iops", rate)) => limits.set_operations(rate)?,
                _ => break,
            }
            rest = before;
        }
        let (file, read_only) = rest.strip_suffix(":ro").map_or((rest, false), |file| (file, true));
        if file.is_empty() {
            return Err("a disk is written FILE or FILE:ro, perhaps with ,bps=RATE or ,iops=RATE".to_owned());
        }
        Ok(Self { file: file.into(), read_only, limits })
    }
}

#[cfg(test)]
mod tests {
    use super::DiskConfig;
    use crate::open::Opener;
    use crate::rate::RateLimits;
    use std::fs;

    #[test]
    fn disk_suffix_ro_is_read_only() {
        for (text, file, read_only) in [("a.img", "a.img", false), ("/x/a:ro", "/x/a", true)] {
            let disk: DiskConfig = text.parse().unwrap();
            let limits = RateLimits::default();
            assert_eq!(
                (disk.to_argument(), &disk),
                (text.into(), &DiskConfig { file: file.into(), read_only, limits })
            );
        }
        assert!(":ro".parse::<DiskConfig>().is_err());
    }

    #[test]
    fn limits_follow_a_file_with_any_name() {
        for (text, file, read_only) in [
            ("a,b=c:ro,bps=10/20,iops=5", "a,b=c", true),
            ("a:ro,bps=10/20,iops=5", "a", true),
            ("a,b,bps=10/20,iops=5", "a,b", false),
        ] {
            let disk: DiskConfig = text.parse().unwrap();
            assert_eq!(disk.to_argument(), text);
            assert_eq!((disk.file.to_str(), disk.read_only), (Some(file), read_only));
            let limits = disk.limits;
            assert_eq!(
                (limits.bytes, limits.operations),
                (Some("10/20".parse().unwrap()), Some("5".parse().unwrap()))
            );
        }
        for text in ["a,bps=0", "a,iops=", "a,bps=1,bps=2", ",bps=1", "a,bps=1M/"] {
            assert!(text.parse::<DiskConfig>().is_err(), "{text}");
        }
    }

    #[test]
    fn disk_of_partial_sectors_is_rejected_with_the_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let disk =
            DiskConfig { file: folder.path().join("disk"), read_only: false, limits: RateLimits::default() };
        let check = || disk.open(&Opener::default()).map(drop);
        assert!(check().unwrap_err().to_string().contains("cannot open the disk"));
        for (size, is_valid) in [(0, true), (512, true), (1000, false), (513, false)] {
            fs::write(&disk.file, vec![0; size]).unwrap();
            assert_eq!(check().is_ok(), is_valid, "{size}");
        }
        let error = check().unwrap_err().to_string();
        assert!(error.contains("513 bytes") && error.contains("truncate -s %512"), "{error}");
    }
}
