//! Keeps the C library's allocator from needing files.
#![expect(unsafe_code, reason = "it is set up by a foreign function")]

/// Has all threads allocate from the one arena that grows by brk(2), and never give memory back that is free at its end.
///
/// Arenas of threads take several system calls to set up, and shrink only after a look at /proc/sys/vm/overcommit_memory.
/// Threads of this process rarely allocate. In a process that had threads before there may be other arenas all the same.
pub(super) fn stay_within_memory() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [(libc::M_ARENA_MAX, 1), (libc::M_TRIM_THRESHOLD, -1)] {
        // SAFETY: the function takes two numbers, may be called at any time and locks what it changes.
        unsafe { libc::mallopt(parameter, value) };
    }
}
