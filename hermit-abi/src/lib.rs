//! The ABI between programs and kernel: functions, types and constants, in C's calling convention and layout.
//!
//! std is built on this crate, which replaces the published `hermit-abi`. This crate has every name, type and
//! value of version 0.5.2 of the published one, so an unmodified std and all crates that use `hermit_abi`
//! compile with it. The documentation is the contract that the kernel implements.
//!
//! - Functions are declarations of kernel symbols ([`SYMBOLS`]): memory, files by path, descriptors, sockets,
//!   threads, synchronisation, time, process. The symbols exist only in an image; on other targets the
//!   functions can be named but not linked. Functions that this kernel does not support fail with an error.
//! - A function that fails returns an error number ([`errno`](mod@errno)), negated:
//!
//!   ```
//!   use hermit_abi::{ENOENT, error_string};
//!
//!   let result = -2; // as `open` returns it
//!   assert_eq!(-result, ENOENT);
//!   assert_eq!(error_string(-result), "No such file or directory");
//!   ```
//!
//! - Sizes and offsets of structures are asserted at compile time.

#![no_std]

mod calls;
mod constants;
pub mod errno;
mod priority;
mod symbols;
mod types;

pub use core::ffi::{c_int, c_short, c_void};

pub use calls::descriptor::{
    close, dup, epoll_create1, epoll_ctl, epoll_pwait2, epoll_wait, eventfd, fchmod, fcntl, fdatasync, flock,
    fstat, fsync, ftruncate, futimens, getdents, getdents64, ioctl, lseek, pipe, poll, pread, pwrite, read,
    readv, shutdownfd, write, writev,
};
pub use calls::file::{
    chdir, chmod, get_properties, getcwd, link, lstat, mkdir, open, open_path, readlink, realpath, rename,
    rmdir, stat, statx, symlink, unlink, unlink_path, utimens,
};
pub use calls::memory::{
    alloc, alloc_zeroed, dealloc, free, getpagesize, heap_lock_count, malloc, mmap, mprotect, munmap,
    realloc, string_moves,
};
pub use calls::process::{
    abort, errno, exit, get_errno, getpid, read_entropy, secure_rand32, secure_rand64, symbol_name,
};
pub use calls::queue::{add_queue, destroy_queue, init_queue, notify, wait};
pub use calls::socket::{
    accept, bind, connect, freeaddrinfo, getaddrbyname, getaddrinfo, getpeername, getsockname, getsockopt,
    listen, network_init, recv, recvfrom, send, sendto, setsockopt, shutdown, socket,
};
pub use calls::sync::{futex_wait, futex_wake, sem_destroy, sem_init, sem_post, sem_timedwait, sem_trywait};
pub use calls::thread::{
    available_parallelism, backtrace, block_current_task, block_current_task_with_timeout, join,
    set_thread_name, spawn, spawn2, wakeup_task, yield_now,
};
pub use calls::time::{clock_gettime, monotonic_time, nanosleep, usleep};
#[expect(deprecated, reason = "still exported, for programs that were written for them")]
pub use calls::{file::opendir, socket::shutdown_socket, thread::get_processor_count};
pub use constants::epoll::{
    EPOLL_CLOEXEC, EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, EPOLLERR, EPOLLET, EPOLLEXCLUSIVE, EPOLLHUP,
    EPOLLIN, EPOLLMSG, EPOLLONESHOT, EPOLLOUT, EPOLLPRI, EPOLLRDBAND, EPOLLRDHUP, EPOLLRDNORM, EPOLLWAKEUP,
    EPOLLWRBAND, EPOLLWRNORM,
};
pub use constants::file::{
    AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW, DT_BLK, DT_CHR, DT_DIR, DT_FIFO, DT_LNK, DT_REG, DT_SOCK,
    DT_UNKNOWN, DT_WHT, F_DUPFD, F_GETFD, F_GETFL, F_SETFD, F_SETFL, FD_CLOEXEC, FIONBIO, IOV_MAX, LOCK_EX,
    LOCK_NB, LOCK_SH, LOCK_UN, O_APPEND, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK,
    O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY, PIPE_BUF, S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT,
    S_IFREG, S_IFSOCK, SEEK_CUR, SEEK_END, SEEK_SET, STATX_BASIC_STATS, STATX_BTIME, STDERR_FILENO,
    STDIN_FILENO, STDOUT_FILENO, UTIME_NOW, UTIME_OMIT,
};
pub use constants::net::{
    AF_INET, AF_INET6, AF_UNSPEC, AF_VSOCK, EAI_AGAIN, EAI_BADFLAGS, EAI_FAIL, EAI_FAMILY, EAI_MEMORY,
    EAI_NODATA, EAI_NONAME, EAI_OVERFLOW, EAI_SERVICE, EAI_SOCKTYPE, EAI_SYSTEM, IP_ADD_MEMBERSHIP,
    IP_DROP_MEMBERSHIP, IP_MULTICAST_LOOP, IP_MULTICAST_TTL, IP_TOS, IP_TTL, IPPROTO_IP, IPPROTO_IPV6,
    IPPROTO_TCP, IPPROTO_UDP, IPV6_ADD_MEMBERSHIP, IPV6_DROP_MEMBERSHIP, IPV6_MULTICAST_HOPS,
    IPV6_MULTICAST_LOOP, IPV6_UNICAST_HOPS, IPV6_V6ONLY, MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_WAITALL,
    SHUT_RD, SHUT_RDWR, SHUT_WR, SO_BROADCAST, SO_ERROR, SO_KEEPALIVE, SO_LINGER, SO_RCVBUF, SO_RCVTIMEO,
    SO_REUSEADDR, SO_SNDBUF, SO_SNDTIMEO, SO_TYPE, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK, SOCK_STREAM,
    SOL_SOCKET, TCP_CONGESTION, TCP_KEEPCNT, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_NODELAY, TCP_QUICKACK,
    TCP_USER_TIMEOUT, VMADDR_CID_ANY, VMADDR_CID_HOST, VMADDR_CID_HYPERVISOR, VMADDR_CID_LOCAL,
};
pub use constants::poll::{
    EFD_CLOEXEC, EFD_NONBLOCK, EFD_SEMAPHORE, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLPRI,
    POLLRDBAND, POLLRDHUP, POLLRDNORM, POLLWRBAND, POLLWRNORM,
};
pub use constants::system::{
    CLOCK_MONOTONIC, CLOCK_REALTIME, FUTEX_RELATIVE_TIMEOUT, PROT_EXEC, PROT_NONE, PROT_READ, PROT_WRITE,
    RAND_MAX, STRING_MOVES_BYTES, STRING_MOVES_NONE, STRING_MOVES_VECTORS, STRING_MOVES_WORDS,
};
pub use errno::{
    E2BIG, EACCES, EADDRINUSE, EADDRNOTAVAIL, EADV, EAFNOSUPPORT, EAGAIN, EALREADY, EBADE, EBADF, EBADFD,
    EBADMSG, EBADR, EBADRQC, EBADSLT, EBFONT, EBUSY, ECANCELED, ECHILD, ECHRNG, ECOMM, ECONNABORTED,
    ECONNREFUSED, ECONNRESET, EDEADLK, EDEADLOCK, EDESTADDRREQ, EDOM, EDOTDOT, EDQUOT, EEXIST, EFAULT, EFBIG,
    EHOSTDOWN, EHOSTUNREACH, EHWPOISON, EIDRM, EILSEQ, EINPROGRESS, EINTR, EINVAL, EIO, EISCONN, EISDIR,
    EISNAM, EKEYEXPIRED, EKEYREJECTED, EKEYREVOKED, EL2HLT, EL2NSYNC, EL3HLT, EL3RST, ELIBACC, ELIBBAD,
    ELIBEXEC, ELIBMAX, ELIBSCN, ELNRNG, ELOOP, EMEDIUMTYPE, EMFILE, EMLINK, EMSGSIZE, EMULTIHOP,
    ENAMETOOLONG, ENAVAIL, ENETDOWN, ENETRESET, ENETUNREACH, ENFILE, ENOANO, ENOBUFS, ENOCSI, ENODATA,
    ENODEV, ENOENT, ENOEXEC, ENOKEY, ENOLCK, ENOLINK, ENOMEDIUM, ENOMEM, ENOMSG, ENONET, ENOPKG, ENOPROTOOPT,
    ENOSPC, ENOSR, ENOSTR, ENOSYS, ENOTBLK, ENOTCONN, ENOTDIR, ENOTEMPTY, ENOTNAM, ENOTRECOVERABLE, ENOTSOCK,
    ENOTTY, ENOTUNIQ, ENXIO, EOPNOTSUPP, EOVERFLOW, EOWNERDEAD, EPERM, EPFNOSUPPORT, EPIPE, EPROTO,
    EPROTONOSUPPORT, EPROTOTYPE, ERANGE, EREMCHG, EREMOTE, EREMOTEIO, ERESTART, ERFKILL, EROFS, ESHUTDOWN,
    ESOCKTNOSUPPORT, ESPIPE, ESRCH, ESRMNT, ESTALE, ESTRPIPE, ETIME, ETIMEDOUT, ETOOMANYREFS, ETXTBSY,
    EUCLEAN, EUNATCH, EUSERS, EWOULDBLOCK, EXDEV, EXFULL, error_string,
};
pub use priority::{HIGH_PRIO, LOW_PRIO, NO_PRIORITIES, NORMAL_PRIO, Priority, get_priority, set_priority};
pub use symbols::SYMBOLS;
pub use types::file::{dirent64, epoll_event, file_properties, iovec, pollfd, stat, statx, statx_timestamp};
pub use types::net::{
    addrinfo, in_addr, in6_addr, ip_mreq, ipv6_mreq, linger, sockaddr, sockaddr_in, sockaddr_in6,
    sockaddr_storage, sockaddr_vm,
};
pub use types::scalar::{
    Tid, clockid_t, in_addr_t, in_port_t, nfds_t, pid_t, sa_family_t, sem_t, socklen_t, suseconds_t, time_t,
    useconds_t,
};
pub use types::time::{timespec, timeval};

/// Returns false for every descriptor: the console is not reported as a terminal, since it may be connected
/// to anything.
pub fn isatty(_fd: c_int) -> bool {
    false
}
