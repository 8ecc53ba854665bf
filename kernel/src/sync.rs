//! Synchronisation between threads of the kernel: the locks of `hermit_hal::sync` spin, these sleep.

mod mutex;
mod once_lock;
mod wait_queue;

pub(crate) use mutex::Mutex;
pub(crate) use once_lock::OnceLock;
pub(crate) use wait_queue::WaitQueue;
