//! The machine's console: the virtio console devices if they are in use, else the platform's console.

use core::task::Context;

use hermit_hal::console::{self, Stream};
use hermit_hal::sync::SpinLock;
use hermit_io::{Sink, Terminal};

use crate::devices::{self, OutputDevice, VirtioConsole};
use crate::interrupts::{self, InterruptHandler};
use crate::sync::WaitQueue;
use crate::threads::deferred_block;

/// Readers of the platform's console.
static READERS: WaitQueue = WaitQueue::new();

/// Serialises readers of the console.
static READ_LOCK: SpinLock<()> = SpinLock::new(());

/// Serialises writers to the platform's console.
static WRITE_LOCK: SpinLock<()> = SpinLock::new(());

/// Maximum number of bytes written under one hold of [`WRITE_LOCK`], which masks interrupts.
const CHUNK_SIZE: usize = 256;

/// The machine's console as a terminal.
#[derive(Debug)]
pub(crate) struct MachineConsole;

impl MachineConsole {
    /// Creates the console. From now on, input of the platform's console wakes its readers.
    pub(crate) fn new() -> Self {
        interrupts::register_default(&PlatformInput);
        Self
    }
}

/// Interrupt handler of the platform's console.
#[derive(Debug)]
struct PlatformInput;

impl InterruptHandler for PlatformInput {
    fn interrupt(&self) {
        READERS.wake();
    }
}

/// Writes all bytes to a stream: to its device, or to the platform's console. A short first write goes to the
/// platform's console as far as that need not wait.
fn write(stream: Stream, mut bytes: &[u8]) {
    if devices::is_driverless(bytes.len()) {
        let taken = try_write_to_platform(stream, bytes);
        bytes = bytes.get(taken..).unwrap_or_default();
    }
    if bytes.is_empty() {
        return;
    }
    match devices::output_device(stream) {
        OutputDevice::Device(device) => device.write(bytes),
        OutputDevice::Platform => write_to_platform(stream, bytes),
    }
}

/// Writes all bytes to the platform's console. While the host does not take them, other threads run.
fn write_to_platform(stream: Stream, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let written = try_write_to_platform(stream, bytes.get(..CHUNK_SIZE).unwrap_or(bytes));
        bytes = bytes.get(written..).unwrap_or_default();
        if written == 0 {
            deferred_block::yield_now();
        }
    }
}

/// Writes the bytes that the platform's console takes without waiting. Returns their number. Output of other
/// CPUs may come between two such writes, but never within one.
fn try_write_to_platform(stream: Stream, bytes: &[u8]) -> usize {
    let _guard = WRITE_LOCK.lock();
    console::try_write(stream, bytes)
}

/// Standard error of the machine: a separate stream if the machine has one, else the console.
#[derive(Debug)]
pub(crate) struct MachineError;

impl Sink for MachineError {
    fn write(&self, bytes: &[u8]) {
        write(Stream::Error, bytes);
    }
}

impl Sink for MachineConsole {
    fn write(&self, bytes: &[u8]) {
        write(Stream::Output, bytes);
    }
}

impl Terminal for MachineConsole {
    fn read(&self) -> Option<u8> {
        devices::input_console().map_or_else(console::read, VirtioConsole::read)
    }

    fn has_input(&self) -> bool {
        devices::input_console().map_or_else(console::has_input, VirtioConsole::has_input)
    }

    fn with_input_lock(&self, read: &mut dyn FnMut()) {
        // The first use of the input initialises the device. This may sleep, so it must be done before the
        // lock is taken.
        let _device = devices::input_console();
        let _guard = READ_LOCK.lock();
        read();
    }

    fn wake_on_input(&self, context: &mut Context<'_>) {
        if let Some(device) = devices::input_console() {
            return device.wake_on_input(context);
        }
        self.watch_input(context);
    }

    fn watch_input(&self, context: &Context<'_>) {
        if let Some(device) = devices::input_console() {
            return device.watch_input(context);
        }
        READERS.add(context);
        console::listen();
    }

    fn unwatch_input(&self, context: &Context<'_>) {
        if let Some(device) = devices::input_console() {
            return device.unwatch_input(context);
        }
        READERS.remove(context);
    }
}
