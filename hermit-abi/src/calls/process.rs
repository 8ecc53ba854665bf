//! The program as a whole: its end, its errors and its randomness.

use crate::types::scalar::pid_t;

unsafe extern "C" {
    /// Ends the program, and with it the machine; `status` becomes the machine's result, 0 for success.
    #[link_name = "sys_exit"]
    pub fn exit(status: i32) -> !;

    /// Ends the program, and with it the machine, as one that failed.
    #[link_name = "sys_abort"]
    pub fn abort() -> !;

    /// The number of the program, always the same.
    #[link_name = "sys_getpid"]
    pub fn getpid() -> pid_t;

    /// The positive error number of the calling thread's last failure.
    #[link_name = "sys_get_errno"]
    pub fn get_errno() -> i32;

    /// The same as [`get_errno`].
    #[link_name = "sys_errno"]
    pub fn errno() -> i32;

    /// Writes random bytes fit for cryptography to `buf` and returns how many, at most `len` and at least one unless
    /// `len` is 0. `flags` must be 0.
    ///
    /// Fails with exactly -1, for flags or if the machine offers no randomness: std takes no other number for a failure.
    /// [`get_errno`] tells why.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for writing `len` bytes.
    #[link_name = "sys_read_entropy"]
    pub fn read_entropy(buf: *mut u8, len: usize, flags: u32) -> isize;
}
