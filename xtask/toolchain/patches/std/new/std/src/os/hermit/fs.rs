//! Functions of files beyond those of every platform, with the names and meanings of `std::os::unix::fs`.
//!
//! Part of the std that `cargo xtask setup` builds; the published one has no such module.

use crate::fs::{self, DirBuilder, DirEntry, File, FileType, Metadata, OpenOptions, Permissions};
use crate::io;
use crate::os::fd::AsRawFd as _;
use crate::os::hermit::hermit_abi;
use crate::path::Path;
use crate::sys::{AsInner as _, AsInnerMut as _, FromInner as _, cvt};

/// Reading and writing at an offset, without the position of the file.
#[stable(feature = "hermit_fs", since = "1.95.0")]
pub trait FileExt {
    /// Reads bytes at an offset; returns their number, 0 at the end of the file.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes bytes at an offset, or at the end of a file that is opened for appending; returns their number.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize>;

    /// Reads as many bytes as the buffer has.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_at(&mut buf[done..], offset + done as u64)? {
                0 => return Err(io::Error::READ_EXACT_EOF),
                count => done += count,
            }
        }
        Ok(())
    }

    /// Writes all bytes.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn write_all_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < buf.len() {
            match self.write_at(&buf[done..], offset + done as u64)? {
                0 => return Err(io::Error::WRITE_ALL_EOF),
                count => done += count,
            }
        }
        Ok(())
    }
}

#[stable(feature = "hermit_fs", since = "1.95.0")]
impl FileExt for File {
    #[inline]
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        // SAFETY: the buffer has this length.
        let count = unsafe {
            hermit_abi::pread(self.as_raw_fd(), buf.as_mut_ptr(), buf.len(), offset as i64)
        };
        cvt(count).map(|count| count as usize)
    }

    #[inline]
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<usize> {
        // SAFETY: the buffer has this length.
        let count =
            unsafe { hermit_abi::pwrite(self.as_raw_fd(), buf.as_ptr(), buf.len(), offset as i64) };
        cvt(count).map(|count| count as usize)
    }
}

/// Options of `open`.
#[stable(feature = "hermit_fs", since = "1.95.0")]
pub trait OpenOptionsExt {
    /// Permission bits of a file that is created; 0o666 by default, without those of the mask 0o022.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn mode(&mut self, mode: u32) -> &mut Self;

    /// Further `O_` flags; the access mode among them is ignored.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn custom_flags(&mut self, flags: i32) -> &mut Self;
}

#[stable(feature = "hermit_fs", since = "1.95.0")]
impl OpenOptionsExt for OpenOptions {
    fn mode(&mut self, mode: u32) -> &mut Self {
        self.as_inner_mut().mode(mode);
        self
    }

    fn custom_flags(&mut self, flags: i32) -> &mut Self {
        self.as_inner_mut().custom_flags(flags);
        self
    }
}

/// Permission bits.
#[stable(feature = "hermit_fs", since = "1.95.0")]
pub trait PermissionsExt {
    /// The mode.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn mode(&self) -> u32;

    /// Sets the permission bits.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn set_mode(&mut self, mode: u32);

    /// Permissions with these bits.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn from_mode(mode: u32) -> Self;
}

#[stable(feature = "hermit_fs", since = "1.95.0")]
impl PermissionsExt for Permissions {
    fn mode(&self) -> u32 {
        self.as_inner().mode()
    }

    fn set_mode(&mut self, mode: u32) {
        *self = Self::from_mode(mode);
    }

    fn from_mode(mode: u32) -> Self {
        Self::from_inner(crate::sys::fs::FilePermissions::of_mode(mode))
    }
}

/// Properties of a file; times in seconds since the Unix epoch, and nanoseconds of the second.
#[stable(feature = "hermit_fs", since = "1.95.0")]
pub trait MetadataExt {
    /// Device ID of the file system.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn dev(&self) -> u64;
    /// Number of the inode.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn ino(&self) -> u64;
    /// File type and permission bits.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn mode(&self) -> u32;
    /// Number of hard links.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn nlink(&self) -> u64;
    /// User ID of the owner.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn uid(&self) -> u32;
    /// Group ID of the owner.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn gid(&self) -> u32;
    /// Device ID of a device file.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn rdev(&self) -> u64;
    /// Size in bytes.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn size(&self) -> u64;
    /// Time of the last read.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn atime(&self) -> i64;
    /// Nanoseconds of the time of the last read.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn atime_nsec(&self) -> i64;
    /// Time of the last change of the contents.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn mtime(&self) -> i64;
    /// Nanoseconds of the time of the last change of the contents.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn mtime_nsec(&self) -> i64;
    /// Time of the last change of contents or properties.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn ctime(&self) -> i64;
    /// Nanoseconds of the time of the last change of contents or properties.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn ctime_nsec(&self) -> i64;
    /// Preferred size of reads and writes in bytes.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn blksize(&self) -> u64;
    /// Allocated space in units of 512 bytes.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn blocks(&self) -> u64;
}

#[stable(feature = "hermit_fs", since = "1.95.0")]
impl MetadataExt for Metadata {
    fn dev(&self) -> u64 {
        self.as_inner().properties().dev
    }
    fn ino(&self) -> u64 {
        self.as_inner().properties().ino
    }
    fn mode(&self) -> u32 {
        self.as_inner().properties().mode
    }
    fn nlink(&self) -> u64 {
        self.as_inner().properties().nlink.into()
    }
    fn uid(&self) -> u32 {
        self.as_inner().properties().uid
    }
    fn gid(&self) -> u32 {
        self.as_inner().properties().gid
    }
    fn rdev(&self) -> u64 {
        // No device has a number.
        0
    }
    fn size(&self) -> u64 {
        self.as_inner().properties().size
    }
    fn atime(&self) -> i64 {
        self.as_inner().properties().atime
    }
    fn atime_nsec(&self) -> i64 {
        self.as_inner().properties().atime_nsec.into()
    }
    fn mtime(&self) -> i64 {
        self.as_inner().properties().mtime
    }
    fn mtime_nsec(&self) -> i64 {
        self.as_inner().properties().mtime_nsec.into()
    }
    fn ctime(&self) -> i64 {
        self.as_inner().properties().ctime
    }
    fn ctime_nsec(&self) -> i64 {
        self.as_inner().properties().ctime_nsec.into()
    }
    fn blksize(&self) -> u64 {
        self.as_inner().properties().blksize.into()
    }
    fn blocks(&self) -> u64 {
        self.as_inner().properties().blocks
    }
}

/// Types of files besides regular files, directories and symbolic links.
#[stable(feature = "hermit_fs", since = "1.95.0")]
pub trait FileTypeExt {
    /// Returns true if it is a block device.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn is_block_device(&self) -> bool;
    /// Returns true if it is a character device.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn is_char_device(&self) -> bool;
    /// Returns true if it is a pipe.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn is_fifo(&self) -> bool;
    /// Returns true if it is a socket.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn is_socket(&self) -> bool;
}

#[stable(feature = "hermit_fs", since = "1.95.0")]
impl FileTypeExt for FileType {
    fn is_block_device(&self) -> bool {
        self.as_inner().is(hermit_abi::DT_BLK)
    }
    fn is_char_device(&self) -> bool {
        self.as_inner().is(hermit_abi::DT_CHR)
    }
    fn is_fifo(&self) -> bool {
        self.as_inner().is(hermit_abi::DT_FIFO)
    }
    fn is_socket(&self) -> bool {
        self.as_inner().is(hermit_abi::DT_SOCK)
    }
}

/// Number of the inode of a directory's entry.
#[stable(feature = "hermit_fs", since = "1.95.0")]
pub trait DirEntryExt {
    /// Number of the inode.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn ino(&self) -> u64;
}

#[stable(feature = "hermit_fs", since = "1.95.0")]
impl DirEntryExt for DirEntry {
    fn ino(&self) -> u64 {
        self.as_inner().ino()
    }
}

/// Permission bits of new directories.
#[stable(feature = "hermit_fs", since = "1.95.0")]
pub trait DirBuilderExt {
    /// Sets the permission bits; 0o777 by default, without those of the mask 0o022.
    #[stable(feature = "hermit_fs", since = "1.95.0")]
    fn mode(&mut self, mode: u32) -> &mut Self;
}

#[stable(feature = "hermit_fs", since = "1.95.0")]
impl DirBuilderExt for DirBuilder {
    fn mode(&mut self, mode: u32) -> &mut Self {
        self.as_inner_mut().set_mode(mode);
        self
    }
}

/// Creates a symbolic link.
#[stable(feature = "hermit_fs", since = "1.95.0")]
pub fn symlink<P: AsRef<Path>, Q: AsRef<Path>>(original: P, link: Q) -> io::Result<()> {
    #[expect(deprecated, reason = "deprecated for platforms with a function of their own, as this one")]
    fs::soft_link(original, link)
}
