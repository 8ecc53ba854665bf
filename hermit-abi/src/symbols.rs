//! Symbols that this crate declares.

/// Symbols of all functions that this crate declares, in alphabetical order. In the kernel's object file,
/// `hermit-sys` keeps only these symbols and the entry point global.
pub const SYMBOLS: &[&str] = &[
    "sys_abort",
    "sys_accept",
    "sys_add_queue",
    "sys_alloc",
    "sys_alloc_zeroed",
    "sys_available_parallelism",
    "sys_backtrace",
    "sys_bind",
    "sys_block_current_task",
    "sys_block_current_task_with_timeout",
    "sys_chdir",
    "sys_chmod",
    "sys_clock_gettime",
    "sys_close",
    "sys_connect",
    "sys_dealloc",
    "sys_destroy_queue",
    "sys_dup",
    "sys_epoll_create1",
    "sys_epoll_ctl",
    "sys_epoll_pwait2",
    "sys_epoll_wait",
    "sys_errno",
    "sys_eventfd",
    "sys_exit",
    "sys_fchmod",
    "sys_fcntl",
    "sys_fdatasync",
    "sys_flock",
    "sys_free",
    "sys_freeaddrinfo",
    "sys_fstat",
    "sys_fsync",
    "sys_ftruncate",
    "sys_futex_wait",
    "sys_futex_wake",
    "sys_futimens",
    "sys_get_errno",
    "sys_get_priority",
    "sys_get_processor_count",
    "sys_get_properties",
    "sys_getaddrbyname",
    "sys_getaddrinfo",
    "sys_getcwd",
    "sys_getdents",
    "sys_getdents64",
    "sys_getpagesize",
    "sys_getpeername",
    "sys_getpid",
    "sys_getsockname",
    "sys_getsockopt",
    "sys_heap_lock_count",
    "sys_init_queue",
    "sys_ioctl",
    "sys_join",
    "sys_link",
    "sys_listen",
    "sys_lseek",
    "sys_lstat",
    "sys_malloc",
    "sys_mkdir",
    "sys_mmap",
    "sys_monotonic_time",
    "sys_mprotect",
    "sys_munmap",
    "sys_nanosleep",
    "sys_network_init",
    "sys_notify",
    "sys_open",
    "sys_open_path",
    "sys_opendir",
    "sys_pipe",
    "sys_poll",
    "sys_pread",
    "sys_pwrite",
    "sys_read",
    "sys_read_entropy",
    "sys_readlink",
    "sys_readv",
    "sys_realloc",
    "sys_realpath",
    "sys_recv",
    "sys_recvfrom",
    "sys_rename",
    "sys_rmdir",
    "sys_secure_rand32",
    "sys_secure_rand64",
    "sys_sem_destroy",
    "sys_sem_init",
    "sys_sem_post",
    "sys_sem_timedwait",
    "sys_sem_trywait",
    "sys_send",
    "sys_sendto",
    "sys_set_priority",
    "sys_set_thread_name",
    "sys_setsockopt",
    "sys_shutdown",
    "sys_shutdown_socket",
    "sys_shutdownfd",
    "sys_socket",
    "sys_spawn",
    "sys_spawn2",
    "sys_stat",
    "sys_statx",
    "sys_string_moves",
    "sys_symbol_name",
    "sys_symlink",
    "sys_unlink",
    "sys_unlink_path",
    "sys_usleep",
    "sys_utimens",
    "sys_wait",
    "sys_wakeup_taskt",
    "sys_write",
    "sys_writev",
    "sys_yield",
];

#[cfg(test)]
mod tests {
    extern crate std;

    use std::vec::Vec;

    use super::SYMBOLS;

    /// Source of every module with an extern block.
    const SOURCES: &[&str] = &[
        include_str!("calls/descriptor.rs"),
        include_str!("calls/file.rs"),
        include_str!("calls/memory.rs"),
        include_str!("calls/process.rs"),
        include_str!("calls/queue.rs"),
        include_str!("calls/socket.rs"),
        include_str!("calls/sync.rs"),
        include_str!("calls/thread.rs"),
        include_str!("calls/time.rs"),
    ];

    /// Returns the symbol that a line of source declares, by link name or as the function's own name.
    fn declared(line: &str) -> Option<&str> {
        let line = line.trim();
        if let Some(rest) = line.strip_prefix("#[link_name = \"") {
            return rest.strip_suffix("\"]");
        }
        let function = line.strip_prefix("pub(crate) fn ")?;
        function.split_once('(').map(|(name, _)| name)
    }

    #[test]
    fn list_matches_declarations() {
        let mut declarations: Vec<&str> =
            SOURCES.iter().flat_map(|source| source.lines()).filter_map(declared).collect();
        declarations.sort_unstable();
        assert_eq!(declarations, SYMBOLS);
    }

    #[test]
    fn every_function_names_its_symbol() {
        let functions = |source: &&str| source.lines().filter(|line| line.contains(" fn ")).count();
        assert_eq!(SOURCES.iter().map(functions).sum::<usize>(), SYMBOLS.len());
    }
}
