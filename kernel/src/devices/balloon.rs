//! The virtio balloon device: the host discards free memory that the kernel reports to it.

use core::task::Poll;

use hermit_hal::clock;
use hermit_hal::memory::{Reported, TakenMemory};
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::WaitQueue as _;
use hermit_virtio::Id;
use hermit_virtio::balloon::BalloonDriver;

use super::{Pages, Transport, find, start};
use crate::interrupts::InterruptHandler;
use crate::sync::{OnceLock, WaitQueue};
use crate::threads::wait::block_until;

/// Number of waits for [`WAIT`] after which the device must have answered. There is no single long one: if
/// the host stops the machine for a while, one of these is over when it goes on.
const MAX_WAITS: u32 = 30;

/// Duration of such a wait in nanoseconds.
const WAIT: u64 = 1_000_000_000;

/// The device in use.
#[derive(Debug)]
struct BalloonDevice {
    driver: SpinLock<BalloonDriver<Transport, Pages, TakenMemory>>,
    /// The thread that waits for the device's answer.
    waiters: WaitQueue,
}

/// The device; `None` if the machine has none, or it takes no reports.
static DEVICE: OnceLock<Option<&'static BalloonDevice>> = OnceLock::new();

impl InterruptHandler for BalloonDevice {
    fn interrupt(&self) {
        // The waiter is woken also if the device is broken: completing the report then fails.
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

/// True unless the machine is known to have no balloon device.
pub(crate) fn is_present() -> bool {
    // Without memory the list of devices is not known.
    !matches!(find(Id::Balloon, 0), Err(Errno::ENOENT))
}

/// Reports free memory to the device, and waits until the device has discarded it. The first call initialises
/// the device; only the thread of [`crate::threads::memory_return`] calls it.
///
/// A device that fails gets the status `FAILED`, one that does not answer is reset. Either keeps the memory,
/// and gets no more.
pub(crate) fn report(taken: TakenMemory) -> Reported {
    // Memory is reported only while there is enough: a device for which there is none now counts as missing.
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
