//! Synchronisation between threads of the kernel: the locks of `hermit_hal::sync` spin, these sleep.

mod mutex;
mod once_lock;

use hermit_hal::sync::RawSpinLock;

pub(crate) use mutex::Mutex;
pub(crate) use once_lock::OnceLock;

/// The queue of tasks that wait for an object of the kernel to change.
pub(crate) type WaitQueue = hermit_base::wait::WaitQueue<RawSpinLock>;
