//! The virtio console devices. The first device has standard input and output, or only standard input. The
//! second device has standard error.

use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU32};
use core::task::{Context, Poll};

use hermit_hal::clock;
use hermit_hal::console::{Stream, driverless_writes};
use hermit_hal::exit::drains_consoles;
use hermit_hal::sync::SpinLock;
use hermit_interface::console::END_OF_FILE;
use hermit_virtio::Id;
use hermit_virtio::console::ConsoleDriver;
use hermit_virtio::device::DeviceError;

use super::{DiscoveredDevice, Pages, Transport, find, start};
use crate::interrupts::InterruptHandler;
use crate::sync::{OnceLock, WaitQueue};
use crate::threads::deferred_block;
use crate::threads::wait::block_on;

/// Timeout in nanoseconds for the host to accept all output when the machine ends.
const FLUSH_TIMEOUT: u64 = 1_000_000_000;

/// A console device in use.
#[derive(Debug)]
pub(crate) struct VirtioConsole {
    driver: SpinLock<ConsoleDriver<Transport, Pages>>,
    readers: WaitQueue,
    writers: WaitQueue,
}

/// The output device of a stream.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OutputDevice {
    /// A console device.
    Device(&'static VirtioConsole),
    /// The platform's console, which needs no driver.
    Platform,
}

/// True if the machine's console is a virtio device. It is set before other CPUs start.
static HAS_CONSOLE: AtomicBool = AtomicBool::new(false);

static CONSOLE: OnceLock<Option<&'static VirtioConsole>> = OnceLock::new();

/// True if the first console device provides only the input. It is set before other CPUs start.
static INPUT_REQUESTED: AtomicBool = AtomicBool::new(false);

static INPUT_CONSOLE: OnceLock<Option<&'static VirtioConsole>> = OnceLock::new();

static ERROR_CONSOLE: OnceLock<OutputDevice> = OnceLock::new();

/// Number of further writes, to both streams together, that are tried without a device. Initialising a device
/// takes longer than a few short writes to the platform's console, and many programs print little.
static DRIVERLESS_WRITES: AtomicU32 = AtomicU32::new(0);

/// Maximum size of a driverless write in bytes.
const MAX_DRIVERLESS_SIZE: usize = 256;

/// Makes the first console device the machine's console. Initialises the device at once, unless the
/// platform's console can take the first output.
pub(super) fn init() {
    HAS_CONSOLE.store(true, Relaxed);
    let writes = driverless_writes();
    DRIVERLESS_WRITES.store(writes, Relaxed);
    if writes == 0 {
        console();
    }
}

/// Makes the first console device the standard input, and leaves output to the platform's console.
pub(super) fn request_input() {
    INPUT_REQUESTED.store(true, Relaxed);
}

/// Initialises a console device. If this fails, prints a warning and returns `None`.
fn start_console(device: &DiscoveredDevice) -> Option<&'static VirtioConsole> {
    let started = start(device, |transport, memory| {
        let driver = SpinLock::new(ConsoleDriver::new(transport, memory)?);
        Ok(VirtioConsole { driver, readers: WaitQueue::new(), writers: WaitQueue::new() })
    });
    started.ok()
}

/// Returns the first console device, if the machine's console is a virtio device. The first call initialises
/// it.
fn console() -> Option<&'static VirtioConsole> {
    let start_first = || start_console(find(Id::Console, 0).ok()?);
    if HAS_CONSOLE.load(Relaxed) { *CONSOLE.get_or_init(start_first) } else { None }
}

/// Returns true if a write of `size` bytes should be tried without a device. Returns false after any console
/// device is initialised: both streams may lead to the same file of the host, so writes must not overtake
/// each other.
pub(crate) fn is_driverless(size: usize) -> bool {
    let decrement = |left: u32| left.checked_sub(1);
    size <= MAX_DRIVERLESS_SIZE
        && CONSOLE.get().is_none()
        && ERROR_CONSOLE.get().is_none()
        && DRIVERLESS_WRITES.fetch_update(Relaxed, Relaxed, decrement).is_ok()
}

/// Returns the device of a stream. The first call initialises it.
pub(crate) fn output_device(stream: Stream) -> OutputDevice {
    match stream {
        Stream::Output => console().map_or(OutputDevice::Platform, OutputDevice::Device),
        Stream::Error => *ERROR_CONSOLE.get_or_init(start_error),
    }
}

/// Returns the device of standard input, if it is not the platform's console. The first call initialises it.
pub(crate) fn input_console() -> Option<&'static VirtioConsole> {
    console().or_else(|| *INPUT_CONSOLE.get_or_init(start_input))
}

fn start_input() -> Option<&'static VirtioConsole> {
    if !INPUT_REQUESTED.load(Relaxed) {
        return None;
    }
    start_console(find(Id::Console, 0).ok()?)
}

/// Initialises the device of standard error and returns it. This is the second console device. If the machine
/// has no second device, it is the device of standard output. If the second device cannot be initialised, for
/// example without memory, it is the platform's console.
fn start_error() -> OutputDevice {
    if !HAS_CONSOLE.load(Relaxed) {
        return OutputDevice::Platform;
    }
    let started = find(Id::Console, 1).map_or_else(|_| console(), start_console);
    started.map_or(OutputDevice::Platform, OutputDevice::Device)
}

/// Waits until the host has accepted all output of the console devices, for at most [`FLUSH_TIMEOUT`]. Does
/// not wait if the host accepts output even after the machine has ended.
pub(crate) fn flush_consoles() {
    if drains_consoles() {
        return;
    }
    let deadline = clock::monotonic() + FLUSH_TIMEOUT;
    if let Some(Some(console)) = CONSOLE.get() {
        console.flush(deadline);
    }
    if let Some(OutputDevice::Device(console)) = ERROR_CONSOLE.get() {
        console.flush(deadline);
    }
}

impl InterruptHandler for VirtioConsole {
    fn interrupt(&self) {
        // The waiters are woken even if the device is broken. Reads and writes then do not wait.
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

    /// Waits for room and writes as many bytes as fit. Returns the number of bytes.
    fn wait_and_write(&self, bytes: &[u8]) -> usize {
        block_on(|context| {
            self.writers.add(context);
            match self.driver.lock().write(bytes).unwrap_or(bytes.len()) {
                0 => Poll::Pending,
                count => Poll::Ready(count),
            }
        })
    }

    /// Returns the next byte of the input, if a byte was received. For a broken device, returns the end of
    /// the input.
    pub(crate) fn read(&self) -> Option<u8> {
        self.driver.lock().read_byte().unwrap_or(Some(END_OF_FILE))
    }

    /// Returns true if [`Self::read`] would return a byte.
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

    /// Does [`Self::wake_on_input`], but only for input that raises the next interrupt.
    pub(crate) fn watch_input(&self, context: &Context<'_>) {
        self.readers.add(context);
    }

    /// Removes the waker that [`Self::watch_input`] has registered.
    pub(crate) fn unwatch_input(&self, context: &Context<'_>) {
        self.readers.remove(context);
    }

    /// Waits until the host has accepted all output, or until `deadline` of the monotonic clock.
    fn flush(&self, deadline: u64) {
        // This loop polls, because the driver does not arm an interrupt for the last output buffer.
        while !self.driver.lock().is_flushed().unwrap_or(true) && clock::monotonic() < deadline {
            deferred_block::yield_now();
        }
    }
}
