//! Wait queues by number: an older interface, kept so that everything that linked still links.
//!
//! `id` is the address of the object that is waited for, used as a number only.

unsafe extern "C" {
    /// Prepares a queue for `id`.
    #[doc(hidden)]
    #[link_name = "sys_init_queue"]
    pub fn init_queue(id: usize) -> i32;

    /// Removes the queue of `id`.
    #[doc(hidden)]
    #[link_name = "sys_destroy_queue"]
    pub fn destroy_queue(id: usize) -> i32;

    /// Puts the calling thread on the queue of `id`, for at most `timeout_ns` nanoseconds if that is positive.
    #[doc(hidden)]
    #[link_name = "sys_add_queue"]
    pub fn add_queue(id: usize, timeout_ns: i64) -> i32;

    /// Sleeps until the queue of `id`, which the thread was put on, lets it go.
    #[doc(hidden)]
    #[link_name = "sys_wait"]
    pub fn wait(id: usize) -> i32;

    /// Wakes `count` threads of the queue of `id`, or all of them if `count` is negative.
    #[link_name = "sys_notify"]
    pub fn notify(id: usize, count: i32) -> i32;
}
