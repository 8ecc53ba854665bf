//! Times of files, by the system call `utimens`.

use std::ffi::CString;
use std::os::hermit::ffi::OsStrExt;
use std::os::hermit::fs::MetadataExt;
use std::path::Path;
use std::{fs, io};

use crate::FileTime;

pub fn set_symlink_file_times(p: &Path, atime: FileTime, mtime: FileTime) -> io::Result<()> {
    let path = CString::new(p.as_os_str().as_bytes())?;
    let times = [atime, mtime].map(|time| libc::timespec {
        tv_sec: time.seconds(),
        tv_nsec: time.nanoseconds() as i32,
    });
    // SAFETY: the path ends with a zero byte, and there are two times.
    let result = unsafe { libc::utimens(path.as_ptr(), times.as_ptr(), libc::AT_SYMLINK_NOFOLLOW) };
    if result < 0 {
        return Err(io::Error::from_raw_os_error(-result));
    }
    Ok(())
}

pub fn from_last_modification_time(meta: &fs::Metadata) -> FileTime {
    FileTime {
        seconds: meta.mtime(),
        nanos: meta.mtime_nsec() as u32,
    }
}

pub fn from_last_access_time(meta: &fs::Metadata) -> FileTime {
    FileTime {
        seconds: meta.atime(),
        nanos: meta.atime_nsec() as u32,
    }
}

pub fn from_creation_time(meta: &fs::Metadata) -> Option<FileTime> {
    meta.created().map(Into::into).ok()
}

pub fn open(path: &Path) -> io::Result<fs::File> {
    fs::File::open(path).or_else(|_| fs::OpenOptions::new().write(true).open(path))
}
