//! Requests to end on Hermit: the kernel has a descriptor that reports them.
#![expect(unsafe_code, reason = "the kernel's functions are foreign")]

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::OnceLock;

use hermit_abi::{POLLIN, pollfd};

static DESCRIPTOR: OnceLock<OwnedFd> = OnceLock::new();

pub(super) fn descriptor() -> io::Result<BorrowedFd<'static>> {
    if let Some(descriptor) = DESCRIPTOR.get() {
        return Ok(descriptor.as_fd());
    }
    // SAFETY: the function takes no pointers, and the program is an image, which has the kernel in it.
    let number = unsafe { hermit_abi::shutdownfd(0) };
    if number < 0 {
        return Err(io::Error::from_raw_os_error(-number));
    }
    // SAFETY: the kernel has just opened the descriptor, and nothing else owns it.
    let opened = unsafe { OwnedFd::from_raw_fd(number) };
    // Another thread may have opened a descriptor in the meantime. If so, that one is kept, and `opened` is
    // closed.
    Ok(DESCRIPTOR.get_or_init(|| opened).as_fd())
}

/// Polls for at most `timeout` milliseconds, without limit if it is negative; returns true if the program is
/// requested to end.
fn poll(timeout: i32) -> io::Result<bool> {
    let mut entry = pollfd { fd: descriptor()?.as_raw_fd(), events: POLLIN, revents: 0 };
    // SAFETY: the pointer is to one entry, which is valid for reading and writing until the call returns.
    let count = unsafe { hermit_abi::poll(&raw mut entry, 1, timeout) };
    if count < 0 {
        // SAFETY: the function takes no pointers.
        return Err(io::Error::from_raw_os_error(unsafe { hermit_abi::get_errno() }));
    }
    Ok(count > 0)
}

pub(super) fn wait() -> io::Result<()> {
    while !poll(-1)? {}
    Ok(())
}

pub(super) fn requested() -> bool {
    poll(0).unwrap_or(false)
}
