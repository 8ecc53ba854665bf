//! First use of a device by two threads at the same time. They have different priorities and run on the same
//! CPU.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};

use hermit_abi::{ENOENT, O_RDONLY};

use super::calls;
use super::raw_thread;

/// CPU of all threads.
const CPU: isize = 0;

const LOW: u8 = 1;
const HIGH: u8 = 20;

/// Interval in microseconds of the checks by the thread of high priority. It is shorter than the
/// initialisation of a device.
const INTERVAL: u64 = 10;

/// True if the thread of low priority has begun to open the device.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// With the policy `fifo`, the thread of high priority preempts the other thread, most likely while that
/// thread initialises the device. It never yields the CPU to the other thread, so it must sleep until the
/// device is initialised.
pub(crate) fn first_use() {
    let high = raw_thread::spawn(HIGH, CPU, || {
        while !HAS_BEGUN.load(Acquire) {
            calls::usleep(INTERVAL);
        }
        open();
    });
    let low = raw_thread::spawn(LOW, CPU, || {
        HAS_BEGUN.store(true, Release);
        open();
    });
    for thread in [high, low] {
        assert_eq!(calls::join(thread.expect("no thread was started")), Ok(0));
    }
}

/// Opens the entropy device; without one, searches for it.
fn open() {
    match calls::open(c"/dev/hwrng", O_RDONLY) {
        Ok(descriptor) => assert_eq!(calls::close(descriptor), Ok(0)),
        Err(error) => assert_eq!(error, ENOENT),
    }
}
