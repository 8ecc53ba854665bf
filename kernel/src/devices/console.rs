//! The virtio console devices: the first one has standard input and output, or the input alone, the second one standard
//! error.

use core::sync::atomic::AtomicBool;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll};

use hermit_hal::clock;
use hermit_hal::exit::drains_consoles;
use hermit_hal::sync::SpinLock;
use hermit_interface::console::END_OF_FILE;
use hermit_io::WaitQueue as _;
use hermit_virtio::Id;
use hermit_virtio::console::ConsoleDriver;
use hermit_virtio::device::DeviceError;
use spin::Once;

use super::{DiscoveredDevice, Pages, Transport, find, start};
use crate::interrupts::InterruptHandler;
use crate::sync::{OnceLock, WaitQueue};
use crate::threads::deferred_block;
use crate::threads::wait::block_on;

/// Limit on waiting for the host to take all output when the machine ends, in nanoseconds.
const FLUSH_TIMEOUT: u64 = 1_000_000_000;

/// A console device in use.
#[derive(Debug)]
pub(crate) struct VirtioConsole {
    driver: SpinLock<ConsoleDriver<Transport, Pages>>,
    readers: WaitQueue,
    writers: WaitQueue,
}

/// Device that takes standard error.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ErrorDevice {
    /// A console device.
    Device(&'static VirtioConsole),
    /// The platform's console, which needs no driver.
    Platform,
}

static CONSOLE: Once<Option<&'static VirtioConsole>> = Once::new();

/// Whether the first console device is to have the input alone. Set before other CPUs start.
static INPUT_REQUESTED: AtomicBool = AtomicBool::new(false);

static INPUT_CONSOLE: OnceLock<Option<&'static VirtioConsole>> = OnceLock::new();

static ERROR_CONSOLE: OnceLock<ErrorDevice> = OnceLock::new();

/// Initialises the first console device, if there is one.
pub(super) fn init() {
    CONSOLE.call_once(|| start_console(find(Id::Console, 0).ok()?));
}

/// Has standard input come from the first console device, and leaves output to the platform's console.
pub(super) fn request_input() {
    INPUT_REQUESTED.store(true, Relaxed);
}

/// Initialises a console device; `None`, which is reported, if that fails.
fn start_console(device: &DiscoveredDevice) -> Option<&'static VirtioConsole> {
    let started = start(device, |transport, memory| {
        let driver = SpinLock::new(ConsoleDriver::new(transport, memory)?);
        Ok(VirtioConsole { driver, readers: WaitQueue::new(), writers: WaitQueue::new() })
    });
    started.ok()
}

/// The first console device, if it is initialised.
pub(crate) fn console() -> Option<&'static VirtioConsole> {
    CONSOLE.get().copied().flatten()
}

/// The device of standard input, if it is not the platform's console. A device for the input alone is initialised by the
/// first call.
pub(crate) fn input_console() -> Option<&'static VirtioConsole> {
    console().or_else(|| *INPUT_CONSOLE.get_or_init(start_input))
}

fn start_input() -> Option<&'static VirtioConsole> {
    if !INPUT_REQUESTED.load(Relaxed) {
        return None;
    }
    start_console(find(Id::Console, 0).ok()?)
}

/// The device of standard error: the second console device, which the first call initialises. Without one it is the
/// device of standard output. If the second one cannot be initialised, as without memory, it is the platform's console.
pub(crate) fn error_console() -> ErrorDevice {
    *ERROR_CONSOLE.get_or_init(|| {
        let Some(console) = console() else { return ErrorDevice::Platform };
        match find(Id::Console, 1) {
            Ok(device) => start_console(device).map_or(ErrorDevice::Platform, ErrorDevice::Device),
            Err(_) => ErrorDevice::Device(console),
        }
    })
}

/// Waits until the host has taken all output of the console devices, for at most [`FLUSH_TIMEOUT`]; not at all for a host
/// that takes it after the machine has ended.
pub(crate) fn flush_consoles() {
    let Some(console) = console().filter(|_| !drains_consoles()) else { return };
    let deadline = clock::monotonic() + FLUSH_TIMEOUT;
    console.flush(deadline);
    if let Some(ErrorDevice::Device(console)) = ERROR_CONSOLE.get() {
        console.flush(deadline);
    }
}

impl InterruptHandler for VirtioConsole {
    fn interrupt(&self) {
        // The waiters are woken also if the device is broken: reads and writes then do not wait.
        let _: Result<_, DeviceError> = self.driver.lock().interrupt();
        self.writers.wake();
        self.readers.wake();
    }
}

impl VirtioConsole {
    /// Writes all bytes. A broken device discards them.
    pub(crate) fn write(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = self.driver.lock().write(bytes).unwrap_or(bytes.len());
            let count = if count == 0 { self.wait_and_write(bytes) } else { count };
            bytes = bytes.get(count..).unwrap_or_default();
        }
    }

    /// Waits for room and writes as much as fits; returns the number of bytes.
    fn wait_and_write(&self, bytes: &[u8]) -> usize {
        block_on(|context| {
            self.writers.add(context);
            match self.driver.lock().write(bytes).unwrap_or(bytes.len()) {
                0 => Poll::Pending,
                count => Poll::Ready(count),
            }
        })
    }

    /// The next byte of the input, if one was received. A broken device gives the end of the input.
    pub(crate) fn read(&self) -> Option<u8> {
        self.driver.lock().read_byte().unwrap_or(Some(END_OF_FILE))
    }

    /// Whether [`Self::read`] would return a byte.
    pub(crate) fn has_input(&self) -> bool {
        self.driver.lock().has_input().unwrap_or(true)
    }

    /// Wakes the polling task once there is input.
    pub(crate) fn wake_on_input(&self, context: &Context<'_>) {
        self.readers.add(context);
        // Input that arrived before the task was in the queue raises no further interrupt.
        if self.has_input() {
            self.readers.wake();
        }
    }

    /// [`Self::wake_on_input`], for the next interrupt.
    pub(crate) fn watch_input(&self, context: &Context<'_>) {
        self.readers.add(context);
    }

    /// Ends what [`Self::watch_input`] began.
    pub(crate) fn unwatch_input(&self, context: &Context<'_>) {
        self.readers.remove(context);
    }

    /// Waits until the host has taken all output, at most until `deadline` of the monotonic clock.
    fn flush(&self, deadline: u64) {
        // The driver arms no interrupt for the last output buffer, so this polls.
        while !self.driver.lock().is_flushed().unwrap_or(true) && clock::monotonic() < deadline {
            deferred_block::yield_now();
        }
    }
}
