//! The program's descriptors.

use alloc::sync::Arc;
use core::mem;
use core::task::Context;

use hermit_hal::console;
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::{Console, Descriptor, EventFd, Object, Table, Terminal, Waiters as _};

use crate::devices::{self, VirtioConsole};
use crate::fallible;
use crate::waiters::Waiters;

static TABLE: SpinLock<Table> = SpinLock::new(Table::new());

/// Those who wait for input.
static READERS: Waiters = Waiters::new();

/// Held while input is read.
static READING: SpinLock<()> = SpinLock::new(());

/// Held while a piece of text is written.
static WRITING: SpinLock<()> = SpinLock::new(());

/// How much text is written at a time: interrupts are masked meanwhile.
const PIECE: usize = 256;

/// The machine's console as the console object sees it.
#[derive(Debug)]
struct MachineConsole;

impl Terminal for MachineConsole {
    fn write(&self, bytes: &[u8]) {
        if let Some(device) = devices::console() {
            return device.write(bytes);
        }
        // Other CPUs' text comes before or after a piece, not between its letters.
        for piece in bytes.chunks(PIECE) {
            let _writing = WRITING.lock();
            console::write(piece);
        }
    }

    fn read(&self) -> Option<u8> {
        devices::console().map_or_else(console::read, VirtioConsole::read)
    }

    fn has_input(&self) -> bool {
        devices::console().map_or_else(console::has_input, VirtioConsole::has_input)
    }

    fn alone(&self, read: &mut dyn FnMut()) {
        let _reading = READING.lock();
        read();
    }

    fn wake_on_input(&self, context: &mut Context<'_>) {
        READERS.add(context);
        match devices::console() {
            // It may have come before it was known that somebody waits; if not, an interrupt tells.
            Some(device) if device.has_input() => READERS.wake(),
            Some(_) => {}
            None => console::listen(),
        }
    }
}

/// The console has input.
pub(crate) fn input_arrived() {
    READERS.wake();
}

/// Opens standard input, output and error.
pub(crate) fn init() {
    let console: Arc<dyn Object> = Arc::new(Console::new(MachineConsole));
    let mut table = TABLE.lock();
    for _ in [hermit_abi::STDIN_FILENO, hermit_abi::STDOUT_FILENO, hermit_abi::STDERR_FILENO] {
        // An empty table has room for three.
        let _: Result<usize, Errno> = table.insert(Arc::clone(&console));
    }
}

/// Opens a descriptor for a device by its name.
pub(crate) fn open(path: &[u8], flags: i32) -> Result<i32, Errno> {
    open_object(devices::open(path, flags)?)
}

/// Opens a descriptor for a new counter.
pub(crate) fn open_eventfd(value: u64, semaphore: bool, nonblocking: bool) -> Result<i32, Errno> {
    let object = fallible::arc(EventFd::new(value, semaphore, nonblocking, Waiters::new()));
    open_object(object.ok_or(Errno::ENOMEM)?)
}

/// Opens a descriptor for an object.
pub(crate) fn open_object(object: Arc<dyn Object>) -> Result<i32, Errno> {
    let descriptor = TABLE.lock().insert(object)?;
    i32::try_from(descriptor).map_err(|_| Errno::EMFILE)
}

/// A descriptor that is going to be opened, and is nobody else's; unless it is, it is given back.
#[derive(Debug)]
pub(crate) struct Reserved(Descriptor);

impl Reserved {
    /// Opens it for an object.
    pub(crate) fn open(self, object: Arc<dyn Object>) -> Result<i32, Errno> {
        let number = i32::try_from(self.0).map_err(|_| Errno::EMFILE)?;
        TABLE.lock().fill(self.0, object);
        mem::forget(self);
        Ok(number)
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        TABLE.lock().release(self.0);
    }
}

/// The object of a descriptor, and one for what is going to come of it.
pub(crate) fn get_and_reserve(descriptor: i32) -> Result<(Arc<dyn Object>, Reserved), Errno> {
    let descriptor = usize::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    let mut table = TABLE.lock();
    let object = table.get(descriptor)?;
    let reserved = table.reserve();
    // The object may be dropped, but not while the table is locked.
    drop(table);
    Ok((object, Reserved(reserved?)))
}

/// The object of a descriptor.
pub(crate) fn get(descriptor: i32) -> Result<Arc<dyn Object>, Errno> {
    let descriptor = usize::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    TABLE.lock().get(descriptor)
}

/// Opens another descriptor for the same object, not below `least`.
pub(crate) fn duplicate(descriptor: i32, least: i32) -> Result<i32, Errno> {
    let descriptor = usize::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    let least = usize::try_from(least).map_err(|_| Errno::EINVAL)?;
    let duplicate = TABLE.lock().duplicate(descriptor, least)?;
    i32::try_from(duplicate).map_err(|_| Errno::EMFILE)
}

/// Closes a descriptor.
pub(crate) fn close(descriptor: i32) -> Result<(), Errno> {
    let descriptor = usize::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    // The object may be dropped, but not while the table is locked.
    let object = TABLE.lock().remove(descriptor)?;
    drop(object);
    Ok(())
}
