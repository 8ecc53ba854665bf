//! The host's requests to the program to end. They arrive as interrupts of the power button.

use alloc::sync::Arc;
use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;

use hermit_hal::power_button;
use hermit_hal::sync::RawSpinLock;
use hermit_interface::Errno;
use hermit_io::{Object, ShutdownFd, ShutdownRequests};

use crate::interrupts::{self, InterruptHandler};
use crate::sync::Mutex;
use crate::{descriptors, fallible};

static REQUESTS: ShutdownRequests<RawSpinLock> = ShutdownRequests::new();

/// True if the power button has been enabled, if the machine has one. It is changed only while [`ENABLING`]
/// is held.
static IS_ENABLED: AtomicBool = AtomicBool::new(false);
static ENABLING: Mutex = Mutex::new();

/// Interrupt handler of the power button.
#[derive(Debug)]
struct PowerButton;

impl InterruptHandler for PowerButton {
    fn interrupt(&self) {
        if power_button::take_press() {
            REQUESTS.add();
        }
    }
}

/// Opens a descriptor for requests to end. After the first call, the program handles these requests itself.
pub(crate) fn open(nonblocking: bool) -> Result<i32, Errno> {
    let object: Arc<dyn Object> =
        fallible::arc(ShutdownFd::new(&REQUESTS, nonblocking)).ok_or(Errno::ENOMEM)?;
    let descriptor = descriptors::open(object)?;
    if let Err(error) = ENABLING.with(enable) {
        // An error is possible only if another thread has meanwhile closed the descriptor, whose number it
        // cannot know yet.
        let _: Result<(), Errno> = descriptors::close_one(descriptor);
        return Err(error);
    }
    Ok(descriptor)
}

/// Enables the power button. Only the first call has an effect.
fn enable() -> Result<(), Errno> {
    if IS_ENABLED.load(Relaxed) {
        return Ok(());
    }
    if let Some(line) = power_button::line() {
        interrupts::register(line, PowerButton).map_err(|_| Errno::ENOMEM)?;
        power_button::enable();
    }
    IS_ENABLED.store(true, Relaxed);
    Ok(())
}
