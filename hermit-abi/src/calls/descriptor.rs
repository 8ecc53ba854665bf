//! What can be done with a descriptor, be it a file's, a socket's or an event counter's.
//!
//! All fail with `-EBADF` if the descriptor is not open, and with `-EAGAIN` if they had to wait and the descriptor
//! must not.

use core::ffi::c_void;

use crate::types::file::{dirent64, iovec, pollfd, stat};
use crate::types::scalar::nfds_t;

unsafe extern "C" {
    /// Closes a descriptor. Its number may come back from the next open.
    #[link_name = "sys_close"]
    pub fn close(fd: i32) -> i32;

    /// Reads at most `len` bytes into `buf` and returns how many it read: 0 at the end.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for writing `len` bytes.
    #[link_name = "sys_read"]
    pub fn read(fd: i32, buf: *mut u8, len: usize) -> isize;

    /// Reads into `iovcnt` buffers, filling each before the next, and returns how many bytes it read in all.
    /// Fails with `-EINVAL` for more than [`IOV_MAX`](crate::IOV_MAX) buffers.
    ///
    /// # Safety
    ///
    /// `iov` must point to `iovcnt` entries, each valid for writing.
    #[link_name = "sys_readv"]
    pub fn readv(fd: i32, iov: *const iovec, iovcnt: usize) -> isize;

    /// Writes at most `len` bytes from `buf` and returns how many it wrote.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for reading `len` bytes.
    #[link_name = "sys_write"]
    pub fn write(fd: i32, buf: *const u8, len: usize) -> isize;

    /// Writes from `iovcnt` buffers, emptying each before the next, and returns how many bytes it wrote in all.
    /// Fails with `-EINVAL` for more than [`IOV_MAX`](crate::IOV_MAX) buffers.
    ///
    /// # Safety
    ///
    /// `iov` must point to `iovcnt` entries, each valid for reading.
    #[link_name = "sys_writev"]
    pub fn writev(fd: i32, iov: *const iovec, iovcnt: usize) -> isize;

    /// Moves the position by `offset` bytes from where `whence` says, one of the `SEEK_` numbers, and returns it.
    /// Fails with `-ESPIPE` if there is no position and with `-EINVAL` if it would be negative.
    #[link_name = "sys_lseek"]
    pub fn lseek(fd: i32, offset: isize, whence: i32) -> isize;

    /// Waits until what was written is where it survives a crash. Fails with `-EINVAL` if nothing of the kind can
    /// be said of the descriptor.
    #[link_name = "sys_fsync"]
    pub fn fsync(fd: i32) -> i32;

    /// Tells in `stat` about an open file.
    ///
    /// # Safety
    ///
    /// `stat` must be valid for writing.
    #[link_name = "sys_fstat"]
    pub fn fstat(fd: i32, stat: *mut stat) -> i32;

    /// Writes a directory's entries into the `count` bytes at `dirp`, one behind the other, and returns how many
    /// bytes it wrote; 0 when there are no more. Fails with `-EINVAL` if the buffer is too small.
    ///
    /// # Safety
    ///
    /// `dirp` must be aligned and valid for writing `count` bytes.
    #[link_name = "sys_getdents64"]
    pub fn getdents64(fd: i32, dirp: *mut dirent64, count: usize) -> i64;

    /// Returns a second descriptor of what `fd` stands for. Fails with `-EMFILE` if none is free.
    #[link_name = "sys_dup"]
    pub fn dup(fd: i32) -> i32;

    /// Does what `cmd` says, with what `argp` points to: [`FIONBIO`](crate::FIONBIO). Fails with `-ENOTTY` for
    /// another.
    ///
    /// # Safety
    ///
    /// `argp` must point to what `cmd` takes.
    #[link_name = "sys_ioctl"]
    pub fn ioctl(fd: i32, cmd: i32, argp: *mut c_void) -> i32;

    /// Does what `cmd` says, one of the `F_` numbers, with `arg`. Fails with `-EINVAL` for another.
    #[link_name = "sys_fcntl"]
    pub fn fcntl(fd: i32, cmd: i32, arg: i32) -> i32;

    /// Creates a counter that begins at `initval` and returns its descriptor; `flags` are `EFD_` bits.
    ///
    /// A write adds the eight bytes written to the counter; a read waits until it is not 0, gives it as eight bytes
    /// and sets it to 0.
    #[link_name = "sys_eventfd"]
    pub fn eventfd(initval: u64, flags: i16) -> i32;

    /// Waits until an event holds for one of `nfds` descriptors, or for `timeout` milliseconds: not at all if 0, for
    /// ever if negative. Returns for how many descriptors one holds, 0 after the timeout.
    ///
    /// Unlike the others it fails with exactly -1; [`get_errno`](crate::get_errno) tells why.
    ///
    /// # Safety
    ///
    /// `fds` must point to `nfds` entries, valid for reading and writing.
    #[link_name = "sys_poll"]
    pub fn poll(fds: *mut pollfd, nfds: nfds_t, timeout: i32) -> i32;
}
