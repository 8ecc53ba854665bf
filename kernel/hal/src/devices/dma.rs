//! Memory that devices may access.

use core::arch::asm;
use core::ptr::{NonNull, with_exposed_provenance_mut};
use core::sync::atomic::Ordering::{Acquire, Release};
use core::sync::atomic::{AtomicU16, Ordering};

use hermit_interface::address::PAGE_SIZE;
use hermit_interface::to_usize;
use hermit_virtio::dma::{DmaAllocator, DmaMemory};

use crate::memory;

/// Gives out memory for devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allocator;

impl DmaAllocator for Allocator {
    type Memory = Pages;

    fn allocate(&self, size: usize) -> Option<Pages> {
        let size = u64::try_from(size).ok()?.checked_next_multiple_of(PAGE_SIZE)?;
        let (address, physical) = memory::allocate_pages(size).ok()?;
        let start = NonNull::new(with_exposed_provenance_mut::<u8>(to_usize(address)))?;
        let pages = Pages { start, physical, size: to_usize(size) };
        // SAFETY: the pages are mapped, and so far nobody else's.
        unsafe { start.write_bytes(0, pages.size) };
        Some(pages)
    }
}

/// Pages in one piece that nobody else has but a device: their bytes are only ever copied, and no reference to them exists.
#[derive(Debug)]
pub struct Pages {
    start: NonNull<u8>,
    physical: u64,
    size: usize,
}

// SAFETY: the pages are the value's alone, and every access is one that may race.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Pages {
    /// Where so many bytes are.
    ///
    /// # Panics
    ///
    /// If they are not all there.
    fn place(&self, offset: usize, size: usize) -> NonNull<u8> {
        let end = offset.checked_add(size);
        assert!(end.is_some_and(|end| end <= self.size), "inside of the memory");
        // SAFETY: inside of the pages (checked).
        unsafe { self.start.add(offset) }
    }

    fn word(&self, offset: usize) -> &AtomicU16 {
        let place = self.place(offset, 2).cast::<AtomicU16>();
        assert!(place.is_aligned(), "words are aligned");
        // SAFETY: inside, aligned, initialised, and only accessed in ways that may race.
        unsafe { place.as_ref() }
    }
}

/// Copies bytes of which some may change meanwhile. The compiler knows nothing of how this is done, so it cannot
/// assume that they do not.
///
/// # Safety
///
/// Both ranges must be mapped; the target must be the caller's, or memory like [`Pages`].
#[inline]
unsafe fn copy(from: *const u8, to: *mut u8, size: usize) {
    match size {
        // What rings consist of: the string instruction takes several times as long just to begin.
        2 => {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    "mov {word:x}, [{from}]",
                    "mov [{to}], {word:x}",
                    word = out(reg) _,
                    from = in(reg) from,
                    to = in(reg) to,
                    options(nostack, preserves_flags),
                );
            }
        }
        8 => {
            // SAFETY: the caller's promise.
            unsafe { copy_word(from, to) };
        }
        16 => {
            // SAFETY: the caller's promise.
            unsafe { copy_word(from, to) };
            // SAFETY: as above, for the second half.
            unsafe { copy_word(from.wrapping_add(8), to.wrapping_add(8)) };
        }
        _ => {
            // SAFETY: the caller's promise; the direction flag is clear, as the ABI has it.
            unsafe {
                asm!(
                    "rep movsb",
                    inout("rsi") from => _,
                    inout("rdi") to => _,
                    inout("rcx") size => _,
                    options(nostack, preserves_flags),
                );
            }
        }
    }
}

/// Copies eight bytes, as [`copy`] does.
///
/// # Safety
///
/// As for [`copy`].
#[inline]
unsafe fn copy_word(from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "mov {word}, [{from}]",
            "mov [{to}], {word}",
            word = out(reg) _,
            from = in(reg) from,
            to = in(reg) to,
            options(nostack, preserves_flags),
        );
    }
}

impl DmaMemory for Pages {
    fn size(&self) -> usize {
        self.size
    }

    fn device_address(&self) -> u64 {
        self.physical
    }

    fn read(&self, offset: usize, bytes: &mut [u8]) {
        let from = self.place(offset, bytes.len());
        // SAFETY: `place` has checked one side, the other is the caller's slice.
        unsafe { copy(from.as_ptr(), bytes.as_mut_ptr(), bytes.len()) };
    }

    fn write(&self, offset: usize, bytes: &[u8]) {
        let to = self.place(offset, bytes.len());
        // SAFETY: as above.
        unsafe { copy(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
    }

    fn load_acquire(&self, offset: usize) -> u16 {
        self.word(offset).load(Acquire)
    }

    fn store_release(&self, offset: usize, value: u16) {
        self.word(offset).store(value, Release);
    }

    fn fence(&self) {
        core::sync::atomic::fence(Ordering::SeqCst);
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        memory::free_pages(self.start.addr().get() as u64, self.size as u64);
    }
}
