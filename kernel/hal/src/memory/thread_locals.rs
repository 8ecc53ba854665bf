//! Thread-local variables (ELF Handling For Thread-Local Storage, variant II): the variables lie below the
//! thread pointer, and the word at the thread pointer is its own address.

use core::alloc::Layout;
use core::ptr::{self, NonNull, with_exposed_provenance};

use hermit_interface::to_usize;

use super::{OutOfMemory, TLS, heap};

/// Size of the word at the thread pointer.
const POINTER_SIZE: usize = size_of::<usize>();

/// The thread-local variables of one thread.
#[derive(Debug)]
pub struct ThreadLocals {
    start: NonNull<u8>,
    layout: Layout,
    pointer: NonNull<u8>,
}

// SAFETY: the value owns the block, which may be freed or reset by any thread.
unsafe impl Send for ThreadLocals {}

impl ThreadLocals {
    /// Allocates variables with their initial values.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn new() -> Result<Self, OutOfMemory> {
        let template = TLS.get().copied().unwrap_or_default();
        let align = to_usize(template.align).max(align_of::<usize>());
        // The linker's offsets are relative to the thread pointer, which is the end of the variables rounded
        // up to their alignment.
        let offset = to_usize(template.memory_size).next_multiple_of(align);
        let layout = Layout::from_size_align(offset + POINTER_SIZE, align).map_err(|_| OutOfMemory)?;
        let start = NonNull::new(heap::allocate(layout.size(), layout.align())).ok_or(OutOfMemory)?;
        // SAFETY: the block has `offset + POINTER_SIZE` bytes.
        let pointer = unsafe { start.add(offset) };
        let mut locals = Self { start, layout, pointer };
        locals.reset();
        Ok(locals)
    }

    /// Sets all variables to their initial values again. No thread may use them meanwhile.
    pub(crate) fn reset(&mut self) {
        let template = TLS.get().copied().unwrap_or_default();
        let initial = with_exposed_provenance::<u8>(to_usize(template.start));
        let size = to_usize(template.file_size);
        // SAFETY: the template is a part of the image that is never written, as large as `file_size`, which
        // the loader has checked. The block is larger, as `file_size` is at most `memory_size`, and the
        // exclusive reference to its owner excludes other users.
        unsafe { ptr::copy_nonoverlapping(initial, self.start.as_ptr(), size) };
        // SAFETY: `size` is at most `memory_size`, which is less than the size of the block.
        let rest = unsafe { self.start.add(size) };
        // SAFETY: this is the rest of the block, which has `layout.size()` bytes and no other user.
        unsafe { rest.write_bytes(0, self.layout.size() - size) };
        // SAFETY: `new` allocates the word after the variables, and aligns the thread pointer at least to a
        // word.
        unsafe { self.pointer.cast::<usize>().write(self.pointer.addr().get()) };
    }

    /// The thread pointer of a thread with these variables.
    pub(crate) fn pointer(&self) -> u64 {
        self.pointer.addr().get() as u64
    }
}

impl Drop for ThreadLocals {
    fn drop(&mut self) {
        // SAFETY: `new` has allocated the block with this layout. The owner of the value,
        // `crate::thread::Thread`, drops it when its context is empty: when no thread uses the variables.
        unsafe { heap::deallocate(self.start.as_ptr(), self.layout.size(), self.layout.align()) };
    }
}
