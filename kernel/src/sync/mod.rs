//! Synchronisation between threads of the kernel: the locks of `hermit_hal::sync` spin, these sleep.

mod mutex;
mod wait_queue;

pub(crate) use mutex::Mutex;
pub(crate) use wait_queue::WaitQueue;
