//! The name of the machine in procfs. It cannot be set.

#[cfg(feature = "set")]
use std::ffi::OsStr;
use std::ffi::OsString;
use std::fs;
use std::io;

pub fn get() -> io::Result<OsString> {
    let name = fs::read_to_string("/proc/sys/kernel/hostname")?;
    Ok(name.trim_end().into())
}

#[cfg(feature = "set")]
pub fn set(_hostname: &OsStr) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
