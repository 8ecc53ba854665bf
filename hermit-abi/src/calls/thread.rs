//! Threads: creating, joining and scheduling them.

use core::ffi::c_char;

use crate::types::scalar::Tid;

unsafe extern "C" {
    /// Creates a thread that calls `func(arg)`, and stores its number in `id`.
    ///
    /// `prio` is the number of a [`Priority`](crate::Priority). `core_id` pins the thread to a CPU; with -1
    /// it is not pinned. Fails with `-EAGAIN` without memory or room for one more thread, and with `-EINVAL`
    /// for a priority or a CPU that does not exist.
    ///
    /// # Safety
    ///
    /// `id` must be null or valid for writing, and `func(arg)` must be sound to call on another thread.
    #[link_name = "sys_spawn"]
    pub fn spawn(id: *mut Tid, func: extern "C" fn(usize), arg: usize, prio: u8, core_id: isize) -> i32;

    /// As [`spawn`], with a stack of at least `stack_size` bytes. Returns the thread's number, or 0 on
    /// failure.
    ///
    /// # Safety
    ///
    /// `func(arg)` must be sound to call on another thread.
    #[link_name = "sys_spawn2"]
    pub fn spawn2(func: extern "C" fn(usize), arg: usize, prio: u8, stack_size: usize, core_id: isize)
    -> Tid;

    /// Waits until thread `id` has ended. Fails with `-EINVAL` if there was no such thread, and with
    /// `-EDEADLK` for the calling thread.
    #[link_name = "sys_join"]
    pub fn join(id: Tid) -> i32;

    /// Yields to other ready threads.
    #[link_name = "sys_yield"]
    pub fn yield_now();

    /// Sets the name of the calling thread, which fault reports show; null or an empty text removes it. A
    /// name is truncated to 31 bytes, at a character boundary.
    ///
    /// # Safety
    ///
    /// `name` must be null, or a text that ends with 0 and does not change during the call.
    #[link_name = "sys_set_thread_name"]
    pub fn set_thread_name(name: *const c_char);

    /// Stores the call stack of the calling thread, innermost call first, and returns the number of stored
    /// calls, at most `count`. A call is the address of a byte of its call instruction, relative to the
    /// image's start: an address in the ELF file, as `addr2line` and [`symbol_name`](crate::symbol_name) take
    /// it.
    ///
    /// # Safety
    ///
    /// `addresses` must be null, or point to `count` values that no other code accesses during the call.
    #[link_name = "sys_backtrace"]
    pub fn backtrace(addresses: *mut usize, count: usize) -> usize;

    /// Number of CPUs, at least 1.
    #[link_name = "sys_available_parallelism"]
    pub fn available_parallelism() -> usize;

    /// Number of CPUs.
    #[deprecated(since = "0.4.0", note = "use `available_parallelism`")]
    #[link_name = "sys_get_processor_count"]
    pub fn get_processor_count() -> usize;

    /// Makes the next [`yield_now`] of the calling thread block until [`wakeup_task`] (a deferred block).
    #[link_name = "sys_block_current_task"]
    pub fn block_current_task();

    /// As [`block_current_task`], for at most `timeout` milliseconds.
    #[link_name = "sys_block_current_task_with_timeout"]
    pub fn block_current_task_with_timeout(timeout: u64);

    /// Wakes thread `tid` from a deferred block ([`block_current_task`]), or prevents its next one.
    #[link_name = "sys_wakeup_taskt"]
    pub fn wakeup_task(tid: Tid);

    /// Implements [`get_priority`](crate::get_priority).
    pub(crate) fn sys_get_priority() -> u8;

    /// Implements [`set_priority`](crate::set_priority).
    pub(crate) fn sys_set_priority(tid: Tid, prio: u8);
}
