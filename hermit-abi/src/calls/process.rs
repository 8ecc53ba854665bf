//! The process: exit, process ID, errors, random bytes.

use crate::types::scalar::pid_t;

unsafe extern "C" {
    /// Ends the program and the machine. The low eight bits of `status` are the exit status: 0 for success.
    #[link_name = "sys_exit"]
    pub fn exit(status: i32) -> !;

    /// Ends the program and the machine with the exit status 134, as after SIGABRT.
    #[link_name = "sys_abort"]
    pub fn abort() -> !;

    /// Process ID, always the same.
    #[link_name = "sys_getpid"]
    pub fn getpid() -> pid_t;

    /// Error number of the calling thread's last failure; positive.
    #[link_name = "sys_get_errno"]
    pub fn get_errno() -> i32;

    /// The same as [`get_errno`].
    #[link_name = "sys_errno"]
    pub fn errno() -> i32;

    /// Fills `buf` with random bytes fit for cryptography and returns their number, at most `len` and at
    /// least one unless `len` is 0. `flags` must be 0.
    ///
    /// Unlike other functions, returns -1 on failure: for flags other than 0, or on a machine without a
    /// source of entropy. [`get_errno`] returns the error.
    ///
    /// # Safety
    ///
    /// `buf` must be valid for writing `len` bytes.
    #[link_name = "sys_read_entropy"]
    pub fn read_entropy(buf: *mut u8, len: usize, flags: u32) -> isize;

    /// Stores a random number fit for cryptography in `value` and returns 0.
    ///
    /// Returns -1 on failure: with a null or misaligned pointer, or on a machine without a source of entropy.
    /// [`get_errno`] returns the error.
    ///
    /// # Safety
    ///
    /// `value` must be null, or valid for writing a `u32`.
    #[link_name = "sys_secure_rand32"]
    pub fn secure_rand32(value: *mut u32) -> i32;

    /// As [`secure_rand32`], for a number of 64 bits.
    ///
    /// # Safety
    ///
    /// `value` must be null, or valid for writing a `u64`.
    #[link_name = "sys_secure_rand64"]
    pub fn secure_rand64(value: *mut u64) -> i32;

    /// Stores the name of the function that contains an address, which is relative to the image's start. The
    /// name is demangled, without generic arguments. Returns the length of the name in bytes. The name is
    /// UTF-8 without a 0 at its end, and is truncated to `len` bytes at a character boundary. Returns 0 if no
    /// function is known, as in an image without symbols.
    ///
    /// # Safety
    ///
    /// `buf` must be null, or valid for writing `len` bytes.
    #[link_name = "sys_symbol_name"]
    pub fn symbol_name(address: usize, buf: *mut u8, len: usize) -> usize;
}
