//! Thread-local variables (ELF handling for thread-local storage, variant II): the variables lie below the thread
//! pointer, which points at itself.

use core::alloc::Layout;
use core::ptr::{self, NonNull, with_exposed_provenance};

use hermit_interface::to_usize;

use super::{OutOfMemory, TLS, heap};

/// What lies at the thread pointer: its own address.
const POINTER_SIZE: usize = size_of::<usize>();

/// The thread-local variables of one thread.
#[derive(Debug)]
pub struct ThreadLocals {
    start: NonNull<u8>,
    layout: Layout,
    pointer: NonNull<u8>,
}

// SAFETY: the block is memory that this owns; who has it may use it, whichever thread that is.
unsafe impl Send for ThreadLocals {}

impl ThreadLocals {
    /// Fresh variables with their initial values.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn new() -> Result<Self, OutOfMemory> {
        let template = TLS.get().copied().unwrap_or_default();
        let align = to_usize(template.align).max(align_of::<usize>());
        // The linker counts offsets back from the thread pointer, to the end rounded up to the alignment.
        let offset = to_usize(template.memory_size).next_multiple_of(align);
        let layout = Layout::from_size_align(offset + POINTER_SIZE, align).map_err(|_| OutOfMemory)?;
        let start = NonNull::new(heap::allocate(layout.size(), layout.align())).ok_or(OutOfMemory)?;
        // SAFETY: the block is larger than `offset`.
        let pointer = unsafe { start.add(offset) };
        let mut locals = Self { start, layout, pointer };
        locals.reset();
        Ok(locals)
    }

    /// Gives all variables their initial values again. No thread uses them.
    pub(crate) fn reset(&mut self) {
        let template = TLS.get().copied().unwrap_or_default();
        let initial = with_exposed_provenance::<u8>(to_usize(template.start));
        let size = to_usize(template.file_size);
        // SAFETY: the template lies in the image and is as large as the loader checked; it fits into the block.
        unsafe { ptr::copy_nonoverlapping(initial, self.start.as_ptr(), size) };
        // SAFETY: within the block.
        let rest = unsafe { self.start.add(size) };
        // SAFETY: from there to the end of the block.
        unsafe { rest.write_bytes(0, self.layout.size() - size) };
        // SAFETY: the block has room for the word, and the pointer is aligned for it.
        unsafe { self.pointer.cast::<usize>().write(self.pointer.addr().get()) };
    }

    /// The thread pointer.
    pub(crate) fn pointer(&self) -> u64 {
        self.pointer.addr().get() as u64
    }
}

impl Drop for ThreadLocals {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with this layout, and the thread that used it is gone.
        unsafe { heap::deallocate(self.start.as_ptr(), self.layout.size(), self.layout.align()) };
    }
}
