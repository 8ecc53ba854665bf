//! Names and types of all functions, and fields of all structures, of the published crate's version 0.5.2,
//! and our own functions.
//!
//! There is no kernel to link on the host, so the functions are only named, in constants, and never called.

use core::ffi::{c_char, c_void};

use hermit_abi::{
    Tid, addrinfo, clockid_t, dirent64, iovec, nfds_t, pid_t, pollfd, sem_t, sockaddr, socklen_t, stat,
    timespec,
};

/// Checks that each function is an unsafe foreign one of the given type.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        const _: () = {
            $(let _: unsafe extern "C" fn($($argument),*) $(-> $result)? = hermit_abi::$name;)*
        };
    };
}

functions! {
    abort: fn() -> !;
    accept: fn(i32, *mut sockaddr, *mut socklen_t) -> i32;
    add_queue: fn(usize, i64) -> i32;
    alloc: fn(usize, usize) -> *mut u8;
    alloc_zeroed: fn(usize, usize) -> *mut u8;
    available_parallelism: fn() -> usize;
    bind: fn(i32, *const sockaddr, socklen_t) -> i32;
    block_current_task: fn();
    block_current_task_with_timeout: fn(u64);
    clock_gettime: fn(clockid_t, *mut timespec) -> i32;
    close: fn(i32) -> i32;
    connect: fn(i32, *const sockaddr, socklen_t) -> i32;
    dealloc: fn(*mut u8, usize, usize);
    destroy_queue: fn(usize) -> i32;
    dup: fn(i32) -> i32;
    errno: fn() -> i32;
    eventfd: fn(u64, i16) -> i32;
    exit: fn(i32) -> !;
    fcntl: fn(i32, i32, i32) -> i32;
    free: fn(*mut u8, usize, usize);
    freeaddrinfo: fn(*mut addrinfo);
    fstat: fn(i32, *mut stat) -> i32;
    fsync: fn(i32) -> i32;
    futex_wait: fn(*mut u32, u32, *const timespec, u32) -> i32;
    futex_wake: fn(*mut u32, i32) -> i32;
    get_errno: fn() -> i32;
    getaddrbyname: fn(*const c_char, *mut u8, usize) -> i32;
    getaddrinfo: fn(*const c_char, *const c_char, *const addrinfo, *mut *mut addrinfo) -> i32;
    getdents64: fn(i32, *mut dirent64, usize) -> i64;
    getpagesize: fn() -> i32;
    getpeername: fn(i32, *mut sockaddr, *mut socklen_t) -> i32;
    getpid: fn() -> pid_t;
    getsockname: fn(i32, *mut sockaddr, *mut socklen_t) -> i32;
    getsockopt: fn(i32, i32, i32, *mut c_void, *mut socklen_t) -> i32;
    init_queue: fn(usize) -> i32;
    ioctl: fn(i32, i32, *mut c_void) -> i32;
    join: fn(Tid) -> i32;
    listen: fn(i32, i32) -> i32;
    lseek: fn(i32, isize, i32) -> isize;
    lstat: fn(*const c_char, *mut stat) -> i32;
    malloc: fn(usize, usize) -> *mut u8;
    mkdir: fn(*const i8, u32) -> i32;
    mmap: fn(usize, u32, &mut *mut u8) -> i32;
    mprotect: fn(*mut u8, usize, u32) -> i32;
    munmap: fn(*mut u8, usize) -> i32;
    nanosleep: fn(*const timespec) -> i32;
    network_init: fn() -> i32;
    notify: fn(usize, i32) -> i32;
    open: fn(*const c_char, i32, i32) -> i32;
    poll: fn(*mut pollfd, nfds_t, i32) -> i32;
    read: fn(i32, *mut u8, usize) -> isize;
    read_entropy: fn(*mut u8, usize, u32) -> isize;
    readv: fn(i32, *const iovec, usize) -> isize;
    realloc: fn(*mut u8, usize, usize, usize) -> *mut u8;
    recv: fn(i32, *mut u8, usize, i32) -> isize;
    recvfrom: fn(i32, *mut u8, usize, i32, *mut sockaddr, *mut socklen_t) -> isize;
    rmdir: fn(*const c_char) -> i32;
    sem_destroy: fn(*mut sem_t) -> i32;
    sem_init: fn(*mut sem_t, i32, u32) -> i32;
    sem_post: fn(*mut sem_t) -> i32;
    sem_timedwait: fn(*mut sem_t, *const timespec) -> i32;
    sem_trywait: fn(*mut sem_t) -> i32;
    send: fn(i32, *const c_void, usize, i32) -> isize;
    sendto: fn(i32, *const c_void, usize, i32, *const sockaddr, socklen_t) -> isize;
    setsockopt: fn(i32, i32, i32, *const c_void, socklen_t) -> i32;
    shutdown: fn(i32, i32) -> i32;
    socket: fn(i32, i32, i32) -> i32;
    spawn: fn(*mut Tid, extern "C" fn(usize), usize, u8, isize) -> i32;
    spawn2: fn(extern "C" fn(usize), usize, u8, usize, isize) -> Tid;
    stat: fn(*const c_char, *mut stat) -> i32;
    unlink: fn(*const c_char) -> i32;
    usleep: fn(u64);
    wait: fn(usize) -> i32;
    wakeup_task: fn(Tid);
    write: fn(i32, *const u8, usize) -> isize;
    writev: fn(i32, *const iovec, usize) -> isize;
    yield_now: fn();
}

/// Functions that the published crate lacks. Our patches make std call them, except for `shutdownfd`, which
/// is for programs. The crate getrandom declares `secure_rand32` and `secure_rand64` itself.
mod ours {
    use super::{c_char, timespec};
    use hermit_abi::file_properties;

    functions! {
        backtrace: fn(*mut usize, usize) -> usize;
        chdir: fn(*const c_char) -> i32;
        chmod: fn(*const c_char, u32) -> i32;
        fchmod: fn(i32, u32) -> i32;
        fdatasync: fn(i32) -> i32;
        ftruncate: fn(i32, i64) -> i32;
        futimens: fn(i32, *const timespec) -> i32;
        get_properties: fn(i32, *const u8, usize, i32, *mut file_properties) -> i32;
        getcwd: fn(*mut u8, usize) -> isize;
        getdents: fn(i32, *mut u8, usize) -> isize;
        heap_lock_count: fn() -> u64;
        string_moves: fn() -> u32;
        link: fn(*const c_char, *const c_char) -> i32;
        monotonic_time: fn() -> timespec;
        open_path: fn(*const u8, usize, i32, i32) -> i32;
        pread: fn(i32, *mut u8, usize, i64) -> isize;
        pwrite: fn(i32, *const u8, usize, i64) -> isize;
        readlink: fn(*const c_char, *mut u8, usize) -> isize;
        realpath: fn(*const c_char, *mut u8, usize) -> isize;
        rename: fn(*const c_char, *const c_char) -> i32;
        secure_rand32: fn(*mut u32) -> i32;
        secure_rand64: fn(*mut u64) -> i32;
        set_thread_name: fn(*const c_char);
        shutdownfd: fn(i16) -> i32;
        symbol_name: fn(usize, *mut u8, usize) -> usize;
        symlink: fn(*const c_char, *const c_char) -> i32;
        unlink_path: fn(*const u8, usize) -> i32;
        utimens: fn(*const c_char, *const timespec, i32) -> i32;
    }
}

#[expect(deprecated, reason = "they are part of the interface until they are not exported any more")]
mod deprecated {
    use super::c_char;

    functions! {
        get_processor_count: fn() -> usize;
        opendir: fn(*const c_char) -> i32;
        shutdown_socket: fn(i32, i32) -> i32;
    }
}

const _: () = {
    let _: unsafe fn() -> hermit_abi::Priority = hermit_abi::get_priority;
    let _: unsafe fn(Tid, hermit_abi::Priority) = hermit_abi::set_priority;
    let _: fn(hermit_abi::c_int) -> bool = hermit_abi::isatty;
    let _: fn(i32) -> &'static str = hermit_abi::error_string;
    let _: fn(i32) -> &'static str = hermit_abi::errno::error_string;
    let _: fn(hermit_abi::Priority) -> u8 = hermit_abi::Priority::into;
    let _: fn(u8) -> hermit_abi::Priority = hermit_abi::Priority::from;
};

/// Checks that each name is an alias of the given type.
macro_rules! aliases {
    ($($name:ident = $type:ty;)*) => {
        $(const _: fn(hermit_abi::$name) -> $type = |value| value;)*
    };
}

aliases! {
    Tid = u32;
    c_int = i32;
    c_short = i16;
    c_void = c_void;
    clockid_t = i32;
    in_addr_t = u32;
    in_port_t = u16;
    nfds_t = usize;
    pid_t = i32;
    sa_family_t = u8;
    sem_t = *const c_void;
    socklen_t = u32;
    suseconds_t = i32;
    time_t = i64;
    useconds_t = u32;
}

/// Checks the types of a structure's public fields.
macro_rules! fields {
    ($($structure:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(const _: fn(hermit_abi::$structure) = |value| { $(let _: $type = value.$field;)* };)*
    };
}

fields! {
    timespec { tv_sec: i64, tv_nsec: i32 }
    timeval { tv_sec: i64, tv_usec: i32 }
    in_addr { s_addr: u32 }
    in6_addr { s6_addr: [u8; 16] }
    sockaddr { sa_len: u8, sa_family: u8, sa_data: [c_char; 14] }
    sockaddr_vm {
        svm_len: u8, svm_family: u8, svm_reserved1: u16, svm_port: u32, svm_cid: u32,
        svm_zero: [u8; 4],
    }
    sockaddr_in {
        sin_len: u8, sin_family: u8, sin_port: u16, sin_addr: hermit_abi::in_addr,
        sin_zero: [c_char; 8],
    }
    sockaddr_in6 {
        sin6_len: u8, sin6_family: u8, sin6_port: u16, sin6_flowinfo: u32,
        sin6_addr: hermit_abi::in6_addr, sin6_scope_id: u32,
    }
    addrinfo {
        ai_flags: i32, ai_family: i32, ai_socktype: i32, ai_protocol: i32, ai_addrlen: u32,
        ai_canonname: *mut c_char, ai_addr: *mut sockaddr, ai_next: *mut addrinfo,
    }
    sockaddr_storage { s2_len: u8, ss_family: u8 }
    ip_mreq { imr_multiaddr: hermit_abi::in_addr, imr_interface: hermit_abi::in_addr }
    ipv6_mreq { ipv6mr_multiaddr: hermit_abi::in6_addr, ipv6mr_interface: u32 }
    linger { l_onoff: i32, l_linger: i32 }
    pollfd { fd: i32, events: i16, revents: i16 }
    stat {
        st_dev: u64, st_ino: u64, st_nlink: u64, st_mode: u32, st_uid: u32, st_gid: u32,
        st_rdev: u64, st_size: i64, st_blksize: i64, st_blocks: i64, st_atim: timespec, st_mtim: timespec,
        st_ctim: timespec,
    }
    dirent64 { d_ino: u64, d_off: i64, d_reclen: u16, d_type: u8, d_name: [c_char; 256] }
    iovec { iov_base: *mut c_void, iov_len: usize }
}
