//! The virtio console as the machine's console.

use core::task::{Context, Poll};

use hermit_hal::clock;
use hermit_hal::devices::Allocator;
use hermit_hal::sync::SpinLock;
use hermit_interface::console::END_OF_FILE;
use hermit_io::WaitQueue as _;
use hermit_virtio::Id;
use hermit_virtio::console::Console;
use hermit_virtio::device::DeviceError;
use spin::Once;

use super::{Pages, Transport, find, install};
use crate::interrupts::Handler;
use crate::sync::WaitQueue;
use crate::threads::schedule;
use crate::threads::wait::block_on;

/// How long a machine that ends waits for its output to be taken, in nanoseconds.
const PATIENCE: u64 = 1_000_000_000;

/// A console device.
#[derive(Debug)]
pub(crate) struct VirtioConsole {
    driver: SpinLock<Console<Transport, Pages>>,
    readers: WaitQueue,
    writers: WaitQueue,
}

static CONSOLE: Once<Option<&'static VirtioConsole>> = Once::new();

/// Takes the first console device into use, if there is one.
pub(super) fn init() {
    CONSOLE.call_once(|| {
        let found = find(Id::Console, 0)?;
        let (transport, line) = found.transport()?;
        let driver = Console::new(transport, &Allocator).inspect_err(|error| found.warn(error)).ok()?;
        let driver = SpinLock::new(driver);
        install(VirtioConsole { driver, readers: WaitQueue::new(), writers: WaitQueue::new() }, line)
    });
}

/// The console device that is in use.
pub(crate) fn console() -> Option<&'static VirtioConsole> {
    CONSOLE.get().copied().flatten()
}

impl Handler for VirtioConsole {
    fn interrupt(&self) {
        // If it is broken, those who wait find out.
        let _: Result<_, DeviceError> = self.driver.lock().interrupt();
        self.writers.wake();
        self.readers.wake();
    }
}

impl VirtioConsole {
    /// Writes everything, unless the device is broken: then nobody sees it.
    pub(crate) fn write(&self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let count = self.driver.lock().write(bytes).unwrap_or(bytes.len());
            let count = if count == 0 { self.write_later(bytes) } else { count };
            bytes = bytes.get(count..).unwrap_or_default();
        }
    }

    /// Writes as soon as there is room; how much.
    fn write_later(&self, bytes: &[u8]) -> usize {
        block_on(|context| {
            self.writers.add(context);
            match self.driver.lock().write(bytes).unwrap_or(bytes.len()) {
                0 => Poll::Pending,
                count => Poll::Ready(count),
            }
        })
    }

    /// The next byte of the input, if one has arrived. The input of a broken device has ended.
    pub(crate) fn read(&self) -> Option<u8> {
        self.driver.lock().read_byte().unwrap_or(Some(END_OF_FILE))
    }

    /// Whether there is something to read.
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

    /// Waits until the host has taken everything, but not for ever.
    pub(crate) fn flush(&self) {
        let deadline = clock::monotonic() + PATIENCE;
        // No interrupt says so.
        while !self.driver.lock().is_flushed().unwrap_or(true) && clock::monotonic() < deadline {
            schedule::yield_now();
        }
    }
}
