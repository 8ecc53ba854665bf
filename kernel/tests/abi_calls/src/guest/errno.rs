//! Each thread has its own `errno`.

use std::sync::atomic::{AtomicU32, Ordering};

use hermit_abi::{EBADF, EINVAL};

use super::calls;
use super::raw_thread::{self, ANY_CPU, NORMAL_PRIORITY};
use super::support::wait_until;

/// Number of completed steps. Threads poll it, since a blocking call could change `errno`.
static STEP: AtomicU32 = AtomicU32::new(0);

fn wait_for(step: u32) {
    wait_until("the other thread", || STEP.load(Ordering::Acquire) >= step);
}

pub(crate) fn errno() {
    assert_eq!(calls::close(1_000_000), Err(EBADF));
    assert_eq!((calls::errno(), calls::errno_by_other_name()), (EBADF, EBADF));
    let other = raw_thread::spawn(NORMAL_PRIORITY, ANY_CPU, || {
        assert_eq!(calls::errno(), 0, "a new thread has had no error");
        assert_eq!(calls::eventfd(u64::MAX, 0), Err(EINVAL));
        assert_eq!(calls::errno(), EINVAL);
        STEP.store(1, Ordering::Release);
        wait_for(2);
        assert_eq!(calls::errno(), EINVAL, "another thread's error is seen");
    });
    wait_for(1);
    assert_eq!(calls::errno(), EBADF, "another thread's error is seen");
    assert_eq!(calls::close(-1), Err(EBADF));
    STEP.store(2, Ordering::Release);
    assert_eq!(calls::join(other.expect("no thread was started")), Ok(0));
    // Success does not change `errno`.
    assert_eq!(calls::errno(), EBADF);
}
