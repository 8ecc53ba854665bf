//! Wait queues of early versions of the ABI, kept so that old programs link.
//!
//! `id` is the address of an object, used only as a number.

unsafe extern "C" {
    /// Prepares a queue for `id`.
    #[doc(hidden)]
    #[link_name = "sys_init_queue"]
    pub fn init_queue(id: usize) -> i32;

    /// Removes the queue of `id`.
    #[doc(hidden)]
    #[link_name = "sys_destroy_queue"]
    pub fn destroy_queue(id: usize) -> i32;

    /// Adds the calling thread to the queue of `id`, for at most `timeout_ns` nanoseconds if that is
    /// positive.
    #[doc(hidden)]
    #[link_name = "sys_add_queue"]
    pub fn add_queue(id: usize, timeout_ns: i64) -> i32;

    /// Waits until [`notify`] has been called for the queue of `id` since the thread was added to it.
    #[doc(hidden)]
    #[link_name = "sys_wait"]
    pub fn wait(id: usize) -> i32;

    /// Wakes the threads of the queue of `id`: at least `count` of them, or all if `count` is negative. This
    /// kernel wakes all threads of the queue.
    #[link_name = "sys_notify"]
    pub fn notify(id: usize, count: i32) -> i32;
}
