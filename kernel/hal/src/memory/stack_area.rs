//! The addresses of threads' stacks. Also keeps a stack from growing while a lock is held.

use core::ptr::with_exposed_provenance;

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;
use hermit_memory::stack_slots::{SlotTable, StackBounds};

/// Bytes of stack that code may use while it holds a lock that [`super::stack::extend`] also takes. If the
/// stack had to grow while the lock is held, the page fault handler would wait for the lock forever.
pub(super) const STACK_NEEDED: usize = 8 << 10;

/// All slots, free or in use. Changed under the lock of free slots (`stack::CLEAN`).
pub(super) static SLOTS: SlotTable = SlotTable::new();

/// The stack to which an address belongs. The guard page is part of the stack.
pub(super) fn find(address: u64) -> Option<StackBounds> {
    SLOTS.find(address)
}

/// Touches the next `size` bytes of the current stack, so that using them causes no page fault.
pub(super) fn touch(size: usize) {
    let here = 0_u8;
    let here = (&raw const here).addr();
    // The kernel's own stacks are mapped completely.
    if find(here as u64).is_none() {
        return;
    }
    for offset in (0..=size).step_by(to_usize(PAGE_SIZE)) {
        let below = with_exposed_provenance::<u8>(here - offset);
        // SAFETY: the address is at most `size` bytes below the current frame: in this stack, where the page
        // fault handler maps memory if there is none yet, or in its guard page, where the access is reported
        // as a stack overflow and does not return. The value is not used.
        let _: u8 = unsafe { below.read_volatile() };
    }
}
