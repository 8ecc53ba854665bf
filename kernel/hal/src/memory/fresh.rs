//! Mapping of fresh memory. Frames are allocated and mapped under the memory lock. Between these two steps
//! the frames are filled with zero without the lock, so that other CPUs do not wait for the filling.

use hermit_interface::address::{LARGE_PAGE_SIZE, PAGE_SIZE};
use hermit_paging::{Access, PagingError};

use super::OutOfMemory;
use super::paging::{self, MemoryState};

/// Contents of fresh memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    /// Zero.
    Zero,
    /// Arbitrary: the frames keep their old contents.
    Any,
}

/// Maps fresh memory at reserved addresses, in large pages where they fit.
pub(super) fn map(address: u64, size: u64, access: Access, contents: Contents) -> Result<(), OutOfMemory> {
    let mut done = 0;
    while done < size {
        match map_piece(address + done, size - done, access, contents) {
            Ok(piece) => done += piece,
            Err(error) => {
                if done > 0 {
                    paging::unmap_and_free(core::iter::once((address, done)));
                }
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Maps a first piece of `left` bytes of fresh memory at an address, if there is enough memory for all of
/// them. The piece does not cross the end of a large page, so that the next piece may be a large page.
/// Returns the size of the piece.
fn map_piece(address: u64, left: u64, access: Access, contents: Contents) -> Result<u64, OutOfMemory> {
    let size = left.min(LARGE_PAGE_SIZE - address % LARGE_PAGE_SIZE);
    let mut frames =
        paging::with(|memory| memory.check_reserve(left).and_then(|()| memory.take_frames_up_to(size)))?;
    if contents == Contents::Zero {
        frames.zero();
    }
    let size = frames.size;
    paging::with(|memory| memory.map_frames(address, frames, access)).map_err(|_| OutOfMemory)?;
    Ok(size)
}

/// Maps the first page of a new stack. Does not use the reserve for growing stacks.
pub(super) fn map_first_stack_page(address: u64) -> Result<(), OutOfMemory> {
    // The page, and one for a page table.
    map_page(address, |memory| memory.check_reserve(2 * PAGE_SIZE))
}

/// Maps a fresh page of a growing stack. Uses the reserve if there is no other memory.
pub(super) fn map_stack_page(address: u64) -> Result<(), OutOfMemory> {
    map_page(address, |_| Ok(()))
}

/// Maps a fresh page of a stack at a reserved address, if `check` succeeds. If a page is mapped there
/// already, it stays: another CPU has mapped it at the same time, or the last thread has left it.
fn map_page(
    address: u64,
    check: impl FnOnce(&MemoryState) -> Result<(), OutOfMemory>,
) -> Result<(), OutOfMemory> {
    let mut frames = paging::with(|memory| check(memory).and_then(|()| memory.take_frames(PAGE_SIZE)))?;
    frames.zero();
    match paging::with(|memory| memory.map_frames(address, frames, Access::Write)) {
        Ok(()) | Err(PagingError::AlreadyMapped) => Ok(()),
        Err(_) => Err(OutOfMemory),
    }
}

/// Maps fresh, physically contiguous memory at addresses where nothing is mapped.
pub(super) fn map_block(address: u64, size: u64) -> Result<(), OutOfMemory> {
    let mut frames =
        paging::with(|memory| memory.check_reserve(size).and_then(|()| memory.take_frames(size)))?;
    frames.zero();
    paging::with(|memory| memory.map_frames(address, frames, Access::Write)).map_err(|_| OutOfMemory)
}

/// Maps physically contiguous memory with arbitrary contents at addresses of a lazy range where nothing is
/// mapped. If a page is mapped there already, it stays: another CPU may have touched it at the same time.
pub(super) fn map_lazy_piece(address: u64, size: u64) -> Result<(), OutOfMemory> {
    let frames = paging::with(|memory| memory.check_reserve(size).and_then(|()| memory.take_frames(size)))?;
    match paging::with(|memory| memory.map_frames(address, frames, Access::Write)) {
        Ok(()) => Ok(()),
        Err(PagingError::AlreadyMapped) if size == PAGE_SIZE => Ok(()),
        Err(_) => Err(OutOfMemory),
    }
}
