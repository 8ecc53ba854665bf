//! Memory: the heap from which std allocates, and mappings of whole pages.

unsafe extern "C" {
    /// Allocates `size` bytes, uninitialised, at a multiple of `align`; returns null without memory.
    ///
    /// # Safety
    ///
    /// `size` must not be 0, and `align` must be a power of two.
    #[link_name = "sys_malloc"]
    pub fn malloc(size: usize, align: usize) -> *mut u8;

    /// The same as [`malloc`], under the name that Rust's allocator trait uses.
    ///
    /// # Safety
    ///
    /// As for [`malloc`].
    #[link_name = "sys_alloc"]
    pub fn alloc(size: usize, align: usize) -> *mut u8;

    /// As [`malloc`], but the bytes are zero.
    ///
    /// # Safety
    ///
    /// As for [`malloc`].
    #[link_name = "sys_alloc_zeroed"]
    pub fn alloc_zeroed(size: usize, align: usize) -> *mut u8;

    /// Changes the size of a block from `size` to `new_size` bytes, and returns its address, which may have
    /// changed. The contents are kept up to the smaller size. Without memory it returns null, and the block
    /// is unchanged.
    ///
    /// # Safety
    ///
    /// `ptr` must be a block of this heap, allocated with `size` and `align`; `new_size` must not be 0.
    /// Unless the result is null, the old address must not be used again.
    #[link_name = "sys_realloc"]
    pub fn realloc(ptr: *mut u8, size: usize, align: usize, new_size: usize) -> *mut u8;

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// `ptr` must be a block of this heap, allocated with `size` and `align`, and must not be used again.
    #[link_name = "sys_free"]
    pub fn free(ptr: *mut u8, size: usize, align: usize);

    /// The same as [`free`], under the name that Rust's allocator trait uses.
    ///
    /// # Safety
    ///
    /// As for [`free`].
    #[link_name = "sys_dealloc"]
    pub fn dealloc(ptr: *mut u8, size: usize, align: usize);

    /// Number of acquisitions of the heap's shared lock since the start; for benchmarks.
    #[link_name = "sys_heap_lock_count"]
    pub fn heap_lock_count() -> u64;

    /// Returns the set of instructions with which `memcpy` and the like are faster than with vector registers
    /// of 16 bytes: [`STRING_MOVES_NONE`](crate::STRING_MOVES_NONE), or
    /// [`STRING_MOVES_WORDS`](crate::STRING_MOVES_WORDS) or
    /// [`STRING_MOVES_BYTES`](crate::STRING_MOVES_BYTES), and
    /// [`STRING_MOVES_VECTORS`](crate::STRING_MOVES_VECTORS). The answer is always the same.
    #[link_name = "sys_string_moves"]
    pub safe fn string_moves() -> u32;

    /// Size of a page in bytes.
    #[link_name = "sys_getpagesize"]
    pub fn getpagesize() -> i32;

    /// Maps `size` bytes of new memory, rounded up to whole pages, with the `PROT_` bits of `prot_flags`, and
    /// stores their address in `ret`.
    ///
    /// Fails with `-ENOMEM` without memory, with `-EINVAL` for a size of 0 or unknown bits, and with
    /// `-EACCES` for memory that would be writable and executable.
    #[link_name = "sys_mmap"]
    pub fn mmap(size: usize, prot_flags: u32, ret: &mut *mut u8) -> i32;

    /// Unmaps the pages of the `size` bytes at `ptr`. Fails with `-EINVAL` if [`mmap`] did not map them.
    ///
    /// # Safety
    ///
    /// The memory must not be used any more.
    #[link_name = "sys_munmap"]
    pub fn munmap(ptr: *mut u8, size: usize) -> i32;

    /// Sets the access of the pages of the `size` bytes at `ptr` to the `PROT_` bits `prot_flags`. Fails with
    /// `-EINVAL` if [`mmap`] did not map them, and for the same bits as [`mmap`].
    ///
    /// # Safety
    ///
    /// The memory must not be used in a way that the new bits forbid.
    #[link_name = "sys_mprotect"]
    pub fn mprotect(ptr: *mut u8, size: usize, prot_flags: u32) -> i32;
}
