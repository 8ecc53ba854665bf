//! The signal is a request of the host to end, which a descriptor of the system counts.

use std::io;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::error::Error as CtrlcError;

/// Platform specific error type
pub type Error = io::Error;

/// Platform specific signal type
pub type Signal = u32;

/// Time between two looks for further requests. The descriptor stays readable after the first one.
const PAUSE: Duration = Duration::from_millis(50);

/// Descriptor of the requests.
static REQUESTS: AtomicI32 = AtomicI32::new(-1);

/// Number of requests that were handled.
static HANDLED: AtomicU64 = AtomicU64::new(0);

/// Opens the descriptor. From now on a request does not end the machine.
///
/// # Safety
///
/// There is nothing to observe.
#[inline]
pub unsafe fn init_os_handler(_overwrite: bool) -> Result<(), Error> {
    let fd = libc::shutdownfd(0);
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    REQUESTS.store(fd, Ordering::Relaxed);
    Ok(())
}

/// Blocks until there is a request that was not handled.
///
/// # Safety
///
/// There is nothing to observe.
#[inline]
pub unsafe fn block_ctrl_c() -> Result<(), CtrlcError> {
    loop {
        let mut count = [0; 8];
        let result = libc::read(REQUESTS.load(Ordering::Relaxed), count.as_mut_ptr(), count.len());
        if result < 0 {
            return Err(CtrlcError::System(io::Error::from_raw_os_error(-result as i32)));
        }
        let handled = HANDLED.load(Ordering::Relaxed);
        if u64::from_ne_bytes(count) > handled {
            HANDLED.store(handled + 1, Ordering::Relaxed);
            return Ok(());
        }
        thread::sleep(PAUSE);
    }
}
