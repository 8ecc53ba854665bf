//! Memory: the heap that std allocates from, and whole pages.
//!
//! On the heap, `align` is always a power of two, and a block is given back with the size and alignment it was
//! asked for with.

unsafe extern "C" {
    /// Takes `size` bytes from the heap, at an address that is a multiple of `align`; null if there is no room.
    /// What the bytes hold is not defined.
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

    /// Takes `size` bytes, all zero, from the heap; null if there is no room.
    ///
    /// # Safety
    ///
    /// As for [`malloc`].
    #[link_name = "sys_alloc_zeroed"]
    pub fn alloc_zeroed(size: usize, align: usize) -> *mut u8;

    /// Grows or shrinks a block of `size` bytes to `new_size`, moving it if need be, and returns where it is now.
    /// The contents stay as far as both sizes reach. If there is no room it returns null and the block stays as it was.
    ///
    /// # Safety
    ///
    /// `ptr` must be a block of this heap with that `size` and `align`; `new_size` must not be 0. Unless the result
    /// is null, the old address must not be used again.
    #[link_name = "sys_realloc"]
    pub fn realloc(ptr: *mut u8, size: usize, align: usize, new_size: usize) -> *mut u8;

    /// Gives a block back to the heap.
    ///
    /// # Safety
    ///
    /// `ptr` must be a block of this heap with that `size` and `align`, and must not be used again.
    #[link_name = "sys_free"]
    pub fn free(ptr: *mut u8, size: usize, align: usize);

    /// The same as [`free`], under the name that Rust's allocator trait uses.
    ///
    /// # Safety
    ///
    /// As for [`free`].
    #[link_name = "sys_dealloc"]
    pub fn dealloc(ptr: *mut u8, size: usize, align: usize);

    /// How often the heap's lock that all processors share has been taken: what its benchmark counts.
    #[link_name = "sys_heap_lock_count"]
    pub fn heap_lock_count() -> u64;

    /// The size of a page in bytes.
    #[link_name = "sys_getpagesize"]
    pub fn getpagesize() -> i32;

    /// Maps `size` bytes of new memory, rounded up to whole pages, with the `PROT_` bits of `prot_flags`, and stores
    /// their address in `ret`.
    ///
    /// Fails with `-ENOMEM` if there is no room and with `-EINVAL` for a size of 0 or bits that do not exist, and with
    /// `-EACCES` for memory that could be both written and executed.
    #[link_name = "sys_mmap"]
    pub fn mmap(size: usize, prot_flags: u32, ret: &mut *mut u8) -> i32;

    /// Takes away the pages of the `size` bytes at `ptr`. Fails with `-EINVAL` if [`mmap`] did not map them.
    ///
    /// # Safety
    ///
    /// Nothing may use the memory any more.
    #[link_name = "sys_munmap"]
    pub fn munmap(ptr: *mut u8, size: usize) -> i32;

    /// Gives the pages of the `size` bytes at `ptr` the `PROT_` bits of `prot_flags`. Fails with `-EINVAL` if
    /// [`mmap`] did not map them, and for bits as [`mmap`] does.
    ///
    /// # Safety
    ///
    /// Nothing may use the memory in a way that the new bits forbid.
    #[link_name = "sys_mprotect"]
    pub fn mprotect(ptr: *mut u8, size: usize, prot_flags: u32) -> i32;
}
