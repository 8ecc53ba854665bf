//! The program's descriptors.

use alloc::sync::Arc;
use core::task::Context;

use hermit_hal::console;
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::{Console, Object, Table, Terminal};

static TABLE: SpinLock<Table> = SpinLock::new(Table::new());

/// The machine's console as the console object sees it.
#[derive(Debug)]
struct MachineConsole;

impl Terminal for MachineConsole {
    fn write(&self, bytes: &[u8]) {
        console::write(bytes);
    }

    fn read(&self) -> Option<u8> {
        console::read()
    }

    fn wake_on_input(&self, _context: &mut Context<'_>) {
        // The interrupt itself ends the wait of whoever polls.
        console::listen();
    }
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

/// The object of a descriptor.
pub(crate) fn get(descriptor: i32) -> Result<Arc<dyn Object>, Errno> {
    let descriptor = usize::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    TABLE.lock().get(descriptor)
}

/// Opens another descriptor for the same object.
pub(crate) fn duplicate(descriptor: i32) -> Result<i32, Errno> {
    let descriptor = usize::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    let duplicate = TABLE.lock().duplicate(descriptor)?;
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
