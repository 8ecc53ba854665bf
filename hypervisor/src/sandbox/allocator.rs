//! Configuration of the C library's allocator so that it opens no files.
#![cfg_attr(target_env = "gnu", expect(unsafe_code, reason = "mallopt is a C function"))]

/// Makes all threads allocate from the main arena, which grows with brk(2), and never shrinks the arena.
///
/// glibc makes several system calls to create the arena of a thread, and reads /proc/sys/vm/overcommit_memory
/// before it shrinks one. The filters deny these calls. The threads of this process rarely allocate, so they
/// do not contend for the main arena. Arenas that threads have created before this call stay.
pub(super) fn use_main_arena() {
    #[cfg(target_env = "gnu")]
    for (parameter, value) in [(libc::M_ARENA_MAX, 1), (libc::M_TRIM_THRESHOLD, -1)] {
        // SAFETY: mallopt(3) takes two integers by value, and glibc locks the main arena while it changes the
        // parameters, so a call is sound at any time and from any thread.
        unsafe { libc::mallopt(parameter, value) };
    }
}
