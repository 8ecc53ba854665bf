//! The machine's console: the virtio console device if it is in use, else that of the platform.

use core::task::Context;

use hermit_hal::console;
use hermit_hal::sync::SpinLock;
use hermit_io::{Terminal, WaitQueue as _};

use crate::devices::{self, VirtioConsole};
use crate::interrupts::{self, InterruptHandler};
use crate::sync::WaitQueue;

/// Readers of the platform's console.
static READERS: WaitQueue = WaitQueue::new();

/// Serialises readers of the console.
static READ_LOCK: SpinLock<()> = SpinLock::new(());

/// Serialises writers to the platform's console.
static WRITE_LOCK: SpinLock<()> = SpinLock::new(());

/// Number of bytes written under one hold of [`WRITE_LOCK`], which masks interrupts.
const CHUNK_SIZE: usize = 256;

/// The machine's console as a terminal.
#[derive(Debug)]
pub(crate) struct MachineConsole;

impl MachineConsole {
    /// The console; input that arrives at the platform's wakes its readers from now on.
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

impl Terminal for MachineConsole {
    fn write(&self, bytes: &[u8]) {
        if let Some(device) = devices::console() {
            return device.write(bytes);
        }
        // Output of other CPUs comes between chunks, never inside of one.
        for chunk in bytes.chunks(CHUNK_SIZE) {
            let _guard = WRITE_LOCK.lock();
            console::write(chunk);
        }
    }

    fn read(&self) -> Option<u8> {
        devices::console().map_or_else(console::read, VirtioConsole::read)
    }

    fn has_input(&self) -> bool {
        devices::console().map_or_else(console::has_input, VirtioConsole::has_input)
    }

    fn with_input_lock(&self, read: &mut dyn FnMut()) {
        let _guard = READ_LOCK.lock();
        read();
    }

    fn wake_on_input(&self, context: &mut Context<'_>) {
        if let Some(device) = devices::console() {
            return device.wake_on_input(context);
        }
        READERS.add(context);
        console::listen();
    }
}
