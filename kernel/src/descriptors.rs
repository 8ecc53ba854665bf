//! The program's file descriptors.

use alloc::sync::Arc;
use core::mem;

use hermit_abi::{STDERR_FILENO, STDIN_FILENO, STDOUT_FILENO};
use hermit_hal::sync::SpinLock;
use hermit_interface::Errno;
use hermit_io::{DescriptorTable, FileDescriptor, Object, ReserveError};

static TABLE: SpinLock<DescriptorTable> = SpinLock::new(DescriptorTable::new());

/// Opens standard input, output and error.
pub(crate) fn init(console: &Arc<dyn Object>, error: Arc<dyn Object>) {
    const { assert!(STDIN_FILENO == 0 && STDOUT_FILENO == 1 && STDERR_FILENO == 2, "in order of descriptors") };
    for stream in [Arc::clone(console), Arc::clone(console), error] {
        // The heap has memory for the first descriptors.
        let _: Result<i32, Errno> = open(stream);
    }
}

/// Calls `reserve` with the table, again after each chunk that the table was missing. The chunk is allocated, and dropped if
/// another thread was faster, without the table's lock.
fn with_room<R>(reserve: impl Fn(&mut DescriptorTable) -> Result<R, ReserveError>) -> Result<R, Errno> {
    loop {
        let reserved = reserve(&mut TABLE.lock());
        match reserved {
            Ok(reserved) => return Ok(reserved),
            Err(ReserveError::Errno(errno)) => return Err(errno),
            Err(ReserveError::Missing(missing)) => {
                let chunk = missing.allocate()?;
                let superfluous = TABLE.lock().add(chunk);
                drop(superfluous);
            }
        }
    }
}

/// Opens a descriptor for an object. If there is none, the object is dropped: not under the table's lock.
pub(crate) fn open(object: Arc<dyn Object>) -> Result<i32, Errno> {
    reserve()?.open(object)
}

/// Reserves a descriptor for an object that is still to be opened.
pub(crate) fn reserve() -> Result<Reserved, Errno> {
    with_room(DescriptorTable::reserve).map(Reserved)
}

/// A descriptor that is allocated and not open yet; dropping it frees the descriptor.
#[derive(Debug)]
pub(crate) struct Reserved(FileDescriptor);

impl Reserved {
    /// Opens the descriptor for an object.
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

/// The object of a descriptor, and a reserved descriptor for the object that an operation on it returns.
pub(crate) fn get_and_reserve(descriptor: i32) -> Result<(Arc<dyn Object>, Reserved), Errno> {
    let descriptor = usize::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    with_room(|table| {
        // If this reference is dropped, it is not the last: the table keeps its own.
        let object = table.get(descriptor)?;
        Ok((object, Reserved(table.reserve()?)))
    })
}

/// The object of a descriptor.
pub(crate) fn get(descriptor: i32) -> Result<Arc<dyn Object>, Errno> {
    let descriptor = usize::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    TABLE.lock().get(descriptor)
}

/// Opens the lowest free descriptor that is at least `min` for the object of `descriptor`.
pub(crate) fn duplicate(descriptor: i32, min: i32) -> Result<i32, Errno> {
    let descriptor = usize::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    let min = usize::try_from(min).map_err(|_| Errno::EINVAL)?;
    let duplicate = with_room(|table| table.duplicate(descriptor, min))?;
    i32::try_from(duplicate).map_err(|_| Errno::EMFILE)
}

/// Closes a descriptor.
pub(crate) fn close(descriptor: i32) -> Result<(), Errno> {
    let descriptor = usize::try_from(descriptor).map_err(|_| Errno::EBADF)?;
    let object = TABLE.lock().remove(descriptor)?;
    // The last reference drops the object: not under the table's lock.
    drop(object);
    Ok(())
}
