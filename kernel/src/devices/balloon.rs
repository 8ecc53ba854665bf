//! The virtio balloon device: the host discards free memory that the kernel reports to it.

use core::task::Poll;

use hermit_hal::clock;
use hermit_hal::memory::{Reported, TakenMemory};
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_virtio::Id;
use hermit_virtio::balloon::BalloonDriver;

use super::{Pages, Transport, find, start};
use crate::interrupts::InterruptHandler;
use crate::sync::{OnceLock, WaitQueue};
use crate::threads::wait::block_until;

/// Number of waits of length [`WAIT`] after which the device must have answered. There are several short
/// waits instead of one long wait, because the host may stop the machine for a while: when the machine
/// continues, only one short wait has expired.
const MAX_WAITS: u32 = 30;

/// Length of a wait in nanoseconds.
const WAIT: u64 = 1_000_000_000;

/// The device in use.
#[derive(Debug)]
struct BalloonDevice {
    driver: SpinLock<BalloonDriver<Transport, Pages, TakenMemory>>,
    /// The thread that waits for the device's answer.
    waiters: WaitQueue,
}

/// The device. `None` if the machine has no balloon device, or if the device does not support reports.
static DEVICE: OnceLock<Option<&'static BalloonDevice>> = OnceLock::new();

impl InterruptHandler for BalloonDevice {
    fn interrupt(&self) {
        // The waiter is woken even if the device is broken. Then the report fails.
        let _: Result<_, _> = self.driver.lock().interrupt();
        self.waiters.wake();
    }
}

fn start_first() -> Result<&'static BalloonDevice, Errno> {
    start(find(Id::Balloon, 0)?, |transport, memory| {
        let driver = SpinLock::new(BalloonDriver::new(transport, memory)?);
        Ok(BalloonDevice { driver, waiters: WaitQueue::new() })
    })
}

/// Returns false if the machine is known to have no balloon device.
pub(crate) fn is_present() -> bool {
    // With `ENOMEM`, the list of devices is not known yet, so there may be a device.
    !matches!(find(Id::Balloon, 0), Err(Errno::ENOENT))
}

/// Reports free memory to the device, and waits until the device has discarded it. The first call initialises
/// the device. Only the thread of [`crate::threads::memory_return`] calls this function.
///
/// A device that fails gets the status `FAILED`. A device that does not answer is reset. In both cases, the
/// reported memory is lost, and the device gets no more reports.
pub(crate) fn report(taken: TakenMemory) -> Reported {
    // Memory is reported only while enough is free. So if there is no memory for the driver even now, the
    // device counts as missing.
    let Some(device) = DEVICE.get_or_init(|| start_first().ok()) else {
        return Reported::Refused(Some(taken));
    };
    if let Err(taken) = device.driver.lock().report(taken) {
        return Reported::Refused(Some(taken));
    }
    let wait = || {
        block_until(Some(clock::monotonic() + WAIT), |context| {
            device.waiters.add(context);
            device.driver.lock().complete().transpose().map_or(Poll::Pending, Poll::Ready)
        })
    };
    if let Some(Ok(taken)) = (0..MAX_WAITS).find_map(|_| wait()) {
        return Reported::Discarded(taken);
    }
    device.driver.lock().stop();
    Reported::Refused(None)
}
