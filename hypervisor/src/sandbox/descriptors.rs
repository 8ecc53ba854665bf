//! Inherited file descriptors.
#![expect(unsafe_code, reason = "descriptors without an owner in this process are closed by number")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::fs::{FileType, Mode, OFlags, RawDir, open, stat};
use rustix::io::{FdFlags, fcntl_getfd, fcntl_setfd};

use super::SandboxError;

/// Closes all inherited file descriptors except standard input, output and error.
///
/// An inherited descriptor has no close-on-exec flag: with the flag, it would have been closed when this
/// program was started. Nearly all descriptors that Rust's libraries open have the flag. A program must call
/// this function before it opens descriptors without the flag itself. A library must never call it.
///
/// # Errors
///
/// [`SandboxError::Descriptors`].
pub fn close_inherited() -> Result<(), SandboxError> {
    for descriptor in open_descriptors().map_err(SandboxError::Descriptors)? {
        if descriptor > libc::STDERR_FILENO && is_inherited(descriptor) {
            // SAFETY: the descriptor is open, and was inherited, because it lacks close-on-exec. It is not
            // one of the standard streams. No object of this process owns it: the caller has opened no
            // descriptor without that flag, as the documentation of this function demands.
            drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
    }
    Ok(())
}

/// Takes an inherited file descriptor, and makes it close-on-exec.
///
/// # Errors
///
/// There is no inherited descriptor with this number, or it was already taken.
pub(crate) fn take_inherited(descriptor: RawFd) -> io::Result<OwnedFd> {
    if descriptor <= libc::STDERR_FILENO || !is_inherited(descriptor) {
        return Err(io::ErrorKind::NotFound.into());
    }
    // SAFETY: the descriptor is open, and was inherited, because it lacks close-on-exec. It is not one of the
    // standard streams. No object of this process owns it: no function here opens descriptors without that
    // flag, and an earlier call that had taken this descriptor would have set the flag, as this function does
    // below.
    let descriptor = unsafe { OwnedFd::from_raw_fd(descriptor) };
    fcntl_setfd(&descriptor, FdFlags::CLOEXEC)?;
    Ok(descriptor)
}

/// Returns the sorted descriptors of everything that has a path: files, folders, devices, FIFOs.
pub(super) fn open_files() -> io::Result<Vec<RawFd>> {
    let mut files = open_descriptors()?;
    files.retain(|descriptor| has_path(*descriptor));
    files.sort_unstable();
    Ok(files)
}

/// Returns true if a descriptor is open and refers to a file that other programs may find by a path. A
/// removed file, or an anonymous one such as guest memory, has no links, so it has no path.
fn has_path(descriptor: RawFd) -> bool {
    let Ok(status) = stat(format!("/proc/self/fd/{descriptor}")) else { return false };
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => status.st_nlink > 0,
        FileType::Directory | FileType::CharacterDevice | FileType::BlockDevice | FileType::Fifo => true,
        _ => false,
    }
}

fn open_descriptors() -> io::Result<Vec<RawFd>> {
    let folder = open("/proc/self/fd", OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let mut descriptors = Vec::new();
    // Large enough for the entries of most processes.
    let mut buffer = [MaybeUninit::uninit(); 1024];
    let mut entries = RawDir::new(folder, &mut buffer);
    while let Some(entry) = entries.next() {
        // The names are descriptor numbers.
        descriptors.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<RawFd>().ok()));
    }
    Ok(descriptors)
}

fn is_inherited(descriptor: RawFd) -> bool {
    // SAFETY: the borrowed descriptor lives until the end of this function, which only passes it to fcntl(2)
    // with F_GETFD. If the number was closed meanwhile, as the descriptor of /proc/self/fd was, the call
    // fails and has no effect.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
}
