//! Operations on descriptors of files, sockets and event counters.
//!
//! All fail with `-EBADF` if the descriptor is not open, and with `-EAGAIN` instead of blocking if it is
//! non-blocking.

use core::ffi::c_void;

use crate::types::file::{dirent64, epoll_event, iovec, pollfd, stat};
use crate::types::scalar::nfds_t;
use crate::types::time::timespec;

unsafe extern "C" {
    /// Closes a descriptor. The next descriptor that is opened may get its number.
    #[link_name = "sys_close"]
    pub fn close(fd: i32) -> i32;

    /// Reads at most `len` bytes into `buf` and returns their number: 0 at the end of the file.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for writing `len` bytes.
    #[link_name = "sys_read"]
    pub fn read(fd: i32, buf: *mut u8, len: usize) -> isize;

    /// Reads into `iovcnt` buffers, filling each before the next, and returns the number of bytes.
    /// Fails with `-EINVAL` for more than [`IOV_MAX`](crate::IOV_MAX) buffers.
    ///
    /// # Safety
    ///
    /// `iov` must point to `iovcnt` entries, each valid for writing.
    #[link_name = "sys_readv"]
    pub fn readv(fd: i32, iov: *const iovec, iovcnt: usize) -> isize;

    /// Writes at most `len` bytes from `buf` and returns their number.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for reading `len` bytes.
    #[link_name = "sys_write"]
    pub fn write(fd: i32, buf: *const u8, len: usize) -> isize;

    /// Writes from `iovcnt` buffers, one after the other, and returns the number of bytes.
    /// Fails with `-EINVAL` for more than [`IOV_MAX`](crate::IOV_MAX) buffers.
    ///
    /// # Safety
    ///
    /// `iov` must point to `iovcnt` entries, each valid for reading.
    #[link_name = "sys_writev"]
    pub fn writev(fd: i32, iov: *const iovec, iovcnt: usize) -> isize;

    /// Sets the position to `offset` bytes from the origin `whence`, one of the `SEEK_` numbers, and returns
    /// it. Fails with `-ESPIPE` if the object has no position, and with `-EINVAL` if the position would be
    /// negative. For a directory, the origin is the start or the current position.
    #[link_name = "sys_lseek"]
    pub fn lseek(fd: i32, offset: isize, whence: i32) -> isize;

    /// Waits until written data are on stable storage. Fails with `-EINVAL` if the object has no storage.
    #[link_name = "sys_fsync"]
    pub fn fsync(fd: i32) -> i32;

    /// Stores the properties of an open file in `stat`.
    ///
    /// # Safety
    ///
    /// `stat` must be valid for writing.
    #[link_name = "sys_fstat"]
    pub fn fstat(fd: i32, stat: *mut stat) -> i32;

    /// Stores directory entries in the `count` bytes at `dirp`, one after the other, and returns the number
    /// of bytes; 0 after the last entry. Fails with `-EINVAL` if the buffer is too small. A call at the first
    /// entry with a buffer of up to 1 MiB also fails if the buffer has no room for all entries.
    /// # Safety
    ///
    /// `dirp` must be aligned and valid for writing `count` bytes.
    #[link_name = "sys_getdents64"]
    pub fn getdents64(fd: i32, dirp: *mut dirent64, count: usize) -> i64;

    /// As [`getdents64`], but always stores as many entries as there is room for, beginning at the position.
    /// The next call returns the following entries. The entries need not be aligned.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for writing `len` bytes.
    #[link_name = "sys_getdents"]
    pub fn getdents(fd: i32, buf: *mut u8, len: usize) -> isize;

    /// Reads at most `len` bytes at `offset` and returns their number; the position stays.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for writing `len` bytes.
    #[link_name = "sys_pread"]
    pub fn pread(fd: i32, buf: *mut u8, len: usize, offset: i64) -> isize;

    /// Writes at most `len` bytes at `offset`, or with [`O_APPEND`](crate::O_APPEND) at the end of the file,
    /// and returns their number; the position stays.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for reading `len` bytes.
    #[link_name = "sys_pwrite"]
    pub fn pwrite(fd: i32, buf: *const u8, len: usize, offset: i64) -> isize;

    /// Sets or removes the advisory lock of an open file description: `operation` is
    /// [`LOCK_SH`](crate::LOCK_SH), [`LOCK_EX`](crate::LOCK_EX) or [`LOCK_UN`](crate::LOCK_UN). Duplicates of
    /// a descriptor share the lock, and closing the last of them removes it. A lock of another kind replaces
    /// the present one, but not atomically.
    ///
    /// Waits while other open files have conflicting locks, or fails with `-EAGAIN` with
    /// [`LOCK_NB`](crate::LOCK_NB). Fails with `-EINVAL` for another operation, with `-ENOLCK` without
    /// memory, and with `-EOPNOTSUPP` if the descriptor refers to neither a file nor a directory.
    ///
    /// Not part of the published ABI.
    #[link_name = "sys_flock"]
    pub fn flock(fd: i32, operation: i32) -> i32;

    /// Creates a pipe, and stores the descriptors of its reading end and of its writing end. `flags` are
    /// [`O_NONBLOCK`](crate::O_NONBLOCK) and [`O_CLOEXEC`](crate::O_CLOEXEC).
    ///
    /// A pipe holds 64 KiB. Writes of up to [`PIPE_BUF`](crate::PIPE_BUF) bytes are atomic: they are not
    /// mixed with other writes. A read waits for a byte, and returns 0 when no descriptor for writing is
    /// left. A write waits for room, and fails with `-EPIPE` when no descriptor for reading is left (there is
    /// no `SIGPIPE`).
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `fds` must be valid for writing two numbers.
    #[link_name = "sys_pipe"]
    pub fn pipe(fds: *mut [i32; 2], flags: i32) -> i32;

    /// Sets the size of a file in bytes. Fails with `-EINVAL` if the object is not a file that is open for
    /// writing.
    ///
    /// Not part of the published ABI.
    #[link_name = "sys_ftruncate"]
    pub fn ftruncate(fd: i32, size: i64) -> i32;

    /// As [`fsync`], but attributes that are not needed to read the data may be lost.
    ///
    /// Not part of the published ABI.
    #[link_name = "sys_fdatasync"]
    pub fn fdatasync(fd: i32) -> i32;

    /// Sets the permission bits of an open file.
    ///
    /// Not part of the published ABI.
    #[link_name = "sys_fchmod"]
    pub fn fchmod(fd: i32, mode: u32) -> i32;

    /// Sets the times of an open file, as [`utimens`](crate::utimens) does.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `times` must be null or valid for reading two times.
    #[link_name = "sys_futimens"]
    pub fn futimens(fd: i32, times: *const timespec) -> i32;

    /// Duplicates a descriptor: returns the lowest free descriptor, for the same object. Fails with `-EMFILE`
    /// if all are in use.
    #[link_name = "sys_dup"]
    pub fn dup(fd: i32) -> i32;

    /// Executes the command `cmd`. The only command is [`FIONBIO`](crate::FIONBIO); other commands fail with
    /// `-ENOTTY`.
    ///
    /// # Safety
    ///
    /// `argp` must be valid for reading the argument of the command.
    #[link_name = "sys_ioctl"]
    pub fn ioctl(fd: i32, cmd: i32, argp: *mut c_void) -> i32;

    /// Executes the command `cmd`, one of the `F_` numbers. Fails with `-EINVAL` for other commands.
    #[link_name = "sys_fcntl"]
    pub fn fcntl(fd: i32, cmd: i32, arg: i32) -> i32;

    /// Creates an event counter with the value `initval` and returns its descriptor; `flags` are `EFD_` bits.
    ///
    /// A write adds an 8-byte number to the counter; a read waits until the counter is not 0, returns the
    /// counter as 8 bytes and sets it to 0.
    #[link_name = "sys_eventfd"]
    pub fn eventfd(initval: u64, flags: i16) -> i32;

    /// Returns a descriptor for the host's requests to end: SIGTERM, SIGINT or SIGHUP to the hypervisor, or
    /// the power button of a PC. `flags` are [`EFD_NONBLOCK`](crate::EFD_NONBLOCK) and
    /// [`EFD_CLOEXEC`](crate::EFD_CLOEXEC).
    ///
    /// The descriptor becomes readable with the first request and stays readable. A read waits for the first
    /// request, and returns the number of requests so far as 8 bytes. From the first call on, even if all
    /// descriptors are closed, a request does not end the machine: the program has to exit before the host's
    /// grace period is over.
    ///
    /// On a machine that cannot pass on requests the descriptor never becomes readable.
    #[link_name = "sys_shutdownfd"]
    pub fn shutdownfd(flags: i16) -> i32;

    /// Waits until one of `nfds` descriptors has a requested event, for at most `timeout` milliseconds: not
    /// at all if it is 0, without limit if it is negative. Returns the number of descriptors with events, 0
    /// after the timeout.
    ///
    /// Returns -1 on failure, unlike the other functions; [`get_errno`](crate::get_errno) returns the error.
    ///
    /// # Safety
    ///
    /// `fds` must point to `nfds` entries, valid for reading and writing.
    #[link_name = "sys_poll"]
    pub fn poll(fds: *mut pollfd, nfds: nfds_t, timeout: i32) -> i32;

    /// Creates an epoll instance, a set of watched descriptors, and returns its descriptor. `flags` is 0 or
    /// [`EPOLL_CLOEXEC`](crate::EPOLL_CLOEXEC).
    ///
    /// The semantics are those of Linux's `epoll(7)`. The descriptor can itself be watched and polled: it is
    /// readable if a watched descriptor has an event.
    ///
    /// Not part of the published ABI.
    #[link_name = "sys_epoll_create1"]
    pub fn epoll_create1(flags: i32) -> i32;

    /// Changes the set of `epfd`: adds, changes or removes the descriptor `fd` and its open file. `op` is one
    /// of the `EPOLL_CTL_` numbers. An open file leaves the set when its last descriptor is closed.
    ///
    /// Fails with `-EPERM` for files, directories and devices, which are always ready, with `-EEXIST` if `fd`
    /// is watched already, with `-ENOENT` if it is not watched, and with `-ELOOP` if instances would watch
    /// each other in a circle or more than four deep below one. Fails with `-EINVAL` if `epfd` is not an
    /// epoll instance, if `fd` is the same instance, and for events that exclude each other.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `event` must be valid for reading, unless `op` is [`EPOLL_CTL_DEL`](crate::EPOLL_CTL_DEL).
    #[link_name = "sys_epoll_ctl"]
    pub fn epoll_ctl(epfd: i32, op: i32, fd: i32, event: *const epoll_event) -> i32;

    /// Waits until watched descriptors have events, for at most `timeout` milliseconds: not at all if it is
    /// 0, without limit if it is negative. Stores at most `maxevents` events, and returns their number, 0
    /// after the timeout.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// `events` must be valid for writing `maxevents` entries.
    #[link_name = "sys_epoll_wait"]
    pub fn epoll_wait(epfd: i32, events: *mut epoll_event, maxevents: i32, timeout: i32) -> i32;

    /// As [`epoll_wait`], but `timeout` has a resolution of nanoseconds; null means no limit. There are no
    /// signals, so `sigmask` is ignored.
    ///
    /// Not part of the published ABI.
    ///
    /// # Safety
    ///
    /// As for [`epoll_wait`]; `timeout` must be null or valid for reading.
    #[link_name = "sys_epoll_pwait2"]
    pub fn epoll_pwait2(
        epfd: i32,
        events: *mut epoll_event,
        maxevents: i32,
        timeout: *const timespec,
        sigmask: *const c_void,
    ) -> i32;
}
