//! Closing what the hypervisor's parent has left open.
#![expect(unsafe_code, reason = "descriptors that nobody here owns are closed by number")]

use std::fs;
use std::io;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{FdFlags, fcntl_getfd};

use super::SandboxError;

/// Closes all descriptors that the process was started with, but for standard input, output and error.
///
/// They are those without the close-on-exec flag: it would have closed them when this program was started. Nearly
/// everything that Rust's libraries open has it. To be called by a program before it opens the rest, never by a library.
///
/// # Errors
///
/// [`SandboxError::Descriptors`].
pub fn close_inherited() -> Result<(), SandboxError> {
    for descriptor in open_descriptors().map_err(SandboxError::Descriptors)? {
        if descriptor > libc::STDERR_FILENO && is_inherited(descriptor) {
            // SAFETY: it came from this process's parent, so nothing in this process owns it.
            drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
        }
    }
    Ok(())
}

fn open_descriptors() -> io::Result<Vec<RawFd>> {
    let mut descriptors = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        // All names are numbers.
        descriptors.extend(entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()));
    }
    Ok(descriptors)
}

fn is_inherited(descriptor: RawFd) -> bool {
    // SAFETY: it is only asked for its flags, and never kept. One that is closed (as the folder's own by now) has none.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    fcntl_getfd(descriptor).is_ok_and(|flags| !flags.contains(FdFlags::CLOEXEC))
}
