//! Stacks of threads: addresses with a page below them that is never mapped, and memory behind them only where it
//! was used.

use core::ptr::with_exposed_provenance;

use hermit_interface::image::PAGE_SIZE;
use hermit_interface::to_usize;
use hermit_ranges::Range;

use super::{OutOfMemory, paging};
use crate::arch::stacks;
use crate::sync::SpinLock;

/// How many stacks there can be.
const MAX_STACKS: usize = 16;

/// How much stack may be used while a lock is held that [`extend`] takes as well: if the stack had to grow in
/// between, it would wait for the lock for ever.
pub(super) const STACK_NEEDED: usize = 8 << 10;

/// The stacks that exist, guard pages included.
static STACKS: SpinLock<heapless::Vec<Range, MAX_STACKS>> = SpinLock::new(heapless::Vec::new());

/// The stack of a thread. It exists until the machine ends.
#[derive(Debug)]
pub struct Stack {
    top: u64,
}

impl Stack {
    /// A stack of `size` bytes, rounded up to whole pages. Only its first page has memory at first.
    ///
    /// # Errors
    ///
    /// [`OutOfMemory`].
    pub fn new(size: usize) -> Result<Self, OutOfMemory> {
        let size = (size as u64).next_multiple_of(PAGE_SIZE) + PAGE_SIZE;
        let start = paging::with(|memory| {
            let start = memory.allocate_addresses(size)?;
            memory.map_fresh(start + size - PAGE_SIZE)?;
            Ok(start)
        })?;
        touch(STACK_NEEDED);
        STACKS.lock().push(Range { start, end: start + size }).map_err(|_| OutOfMemory)?;
        Ok(Self { top: start + size })
    }

    /// The address just above the stack.
    #[must_use]
    pub const fn top(&self) -> u64 {
        self.top
    }
}

fn find(address: u64) -> Option<Range> {
    STACKS.lock().iter().find(|range| (range.start..range.end).contains(&address)).copied()
}

/// Whether an address belongs to a stack, its guard page included.
pub(crate) fn contains(address: u64) -> bool {
    find(address).is_some()
}

/// Whether an address is in the guard page of a stack.
pub(crate) fn is_guard(address: u64) -> bool {
    let guard = |start: u64| (start..start + PAGE_SIZE).contains(&address);
    find(address).is_some_and(|range| guard(range.start)) || stacks::all().any(|stack| guard(stack.guard))
}

/// Puts memory behind an address of a stack.
///
/// # Errors
///
/// [`OutOfMemory`] if there is none, or if the address belongs to no stack.
pub(crate) fn extend(address: u64) -> Result<(), OutOfMemory> {
    if is_guard(address) || !contains(address) {
        return Err(OutOfMemory);
    }
    paging::with(|memory| memory.map_fresh(address & !(PAGE_SIZE - 1)))
}

/// Makes sure that the next `size` bytes of the current stack have memory, so that no fault happens while they
/// are used.
#[inline]
pub(crate) fn touch(size: usize) {
    let here = 0_u8;
    let here = (&raw const here).addr();
    // The kernel's own stacks have all their memory.
    if stacks::all().any(|stack| stack.contains(here as u64)) {
        return;
    }
    for offset in (0..=size).step_by(to_usize(PAGE_SIZE)) {
        let below = with_exposed_provenance::<u8>(here - offset);
        // SAFETY: the address is in the current stack or just below it; the read either succeeds or is an overflow
        // of the stack, which is reported. The value is not used.
        let _: u8 = unsafe { below.read_volatile() };
    }
}

/// Reads a frame record: the caller's frame pointer, and the return address. `None` if it does not lie in the
/// used part of a thread's stack or in a stack of the kernel.
pub(crate) fn read_frame(frame: u64) -> Option<(u64, u64)> {
    if !frame.is_multiple_of(8) {
        return None;
    }
    let mapped = match find(frame) {
        Some(range) => frame >= range.start + PAGE_SIZE && frame + 16 <= range.end,
        None => stacks::all().any(|stack| stack.contains(frame) && stack.contains(frame + 15)),
    };
    if !mapped {
        return None;
    }
    let record = with_exposed_provenance::<[u64; 2]>(to_usize(frame));
    // SAFETY: within a stack (checked), above the frame of code that has run there, so it is mapped; any bits are
    // numbers.
    let [next, return_address] = unsafe { record.read_volatile() };
    Some((next, return_address))
}
