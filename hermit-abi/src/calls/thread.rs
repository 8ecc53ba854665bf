//! Threads: starting, joining and scheduling them.

use core::ffi::c_char;

use crate::types::scalar::Tid;

unsafe extern "C" {
    /// Starts a thread that calls `func(arg)`, and stores its number in `id`.
    ///
    /// `prio` is a [`Priority`](crate::Priority) as a number; `core_id` is the processor to run on, or -1 for the
    /// kernel's choice. Fails with `-ENOMEM` if there is no room for a stack and with `-EINVAL` for a priority or a
    /// processor there is not.
    ///
    /// # Safety
    ///
    /// `id` must be null or valid for writing, and `func(arg)` must be sound to call on another thread.
    #[link_name = "sys_spawn"]
    pub fn spawn(id: *mut Tid, func: extern "C" fn(usize), arg: usize, prio: u8, core_id: isize) -> i32;

    /// As [`spawn`], with a stack of at least `stack_size` bytes. Returns the thread's number, or 0 if it could not be
    /// started, never a negative number.
    ///
    /// # Safety
    ///
    /// `func(arg)` must be sound to call on another thread.
    #[link_name = "sys_spawn2"]
    pub fn spawn2(func: extern "C" fn(usize), arg: usize, prio: u8, stack_size: usize, core_id: isize)
    -> Tid;

    /// Waits until thread `id` has ended. Fails with `-EINVAL` if there was no such thread, and with `-EDEADLK` for the
    /// calling thread.
    #[link_name = "sys_join"]
    pub fn join(id: Tid) -> i32;

    /// Lets the other threads that are ready run before the calling one goes on.
    #[link_name = "sys_yield"]
    pub fn yield_now();

    /// Gives the calling thread a name, which the kernel's messages show; null or an empty text takes it away.
    ///
    /// Of a longer name than 31 bytes only as many whole characters stay as fit into that.
    ///
    /// # Safety
    ///
    /// `name` must be null, or a text that ends with 0 and does not change during the call.
    #[link_name = "sys_set_thread_name"]
    pub fn set_thread_name(name: *const c_char);

    /// How many threads can run at the same time, at least 1.
    #[link_name = "sys_available_parallelism"]
    pub fn available_parallelism() -> usize;

    /// How many processors are running.
    #[deprecated(since = "0.4.0", note = "use `available_parallelism`")]
    #[link_name = "sys_get_processor_count"]
    pub fn get_processor_count() -> usize;

    /// Marks the calling thread as waiting: after the next [`yield_now`] it runs again only when
    /// [`wakeup_task`] wakes it.
    #[link_name = "sys_block_current_task"]
    pub fn block_current_task();

    /// As [`block_current_task`], but the thread wakes by itself after `timeout` milliseconds.
    #[link_name = "sys_block_current_task_with_timeout"]
    pub fn block_current_task_with_timeout(timeout: u64);

    /// Wakes thread `tid` if it waits as [`block_current_task`] says; else its next such wait ends at once.
    #[link_name = "sys_wakeup_taskt"]
    pub fn wakeup_task(tid: Tid);

    /// What [`get_priority`](crate::get_priority) calls.
    pub(crate) fn sys_get_priority() -> u8;

    /// What [`set_priority`](crate::set_priority) calls.
    pub(crate) fn sys_set_priority(tid: Tid, prio: u8);
}
