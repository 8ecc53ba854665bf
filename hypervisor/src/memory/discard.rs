//! Return of private guest memory to the host.
#![expect(unsafe_code, reason = "madvise(2) gets addresses of this process's memory")]

use vm_memory::{GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

/// Frees whole pages of private memory on the host. The next access, by the guest or by this process, finds
/// zeros. The pages are unmapped at once from this process and, through an MMU notifier, from KVM. Returns
/// false if the range is not within one region, or does not start at a page boundary.
pub(super) fn discard_private(memory: &GuestMemoryMmap, start: GuestAddress, size: usize) -> bool {
    let Ok(pages) = memory.get_slice(start, size) else { return false };
    let pages = pages.ptr_guard_mut();
    // SAFETY: `get_slice` has checked that the bytes lie in one region of guest memory. A region is a mapping
    // of its own, which `memory` keeps mapped. madvise(2) fails with EINVAL if the first byte does not begin
    // a page, and rounds the length up to whole pages. The mapping consists of whole pages, so no other
    // memory changes, whatever the guest has named. The bytes become zeros, which the guest may write at any
    // time as well. This process has no references into the mapping: vm-memory accesses it by volatile copies
    // and atomics.
    unsafe { libc::madvise(pages.as_ptr().cast(), pages.len(), libc::MADV_DONTNEED) == 0 }
}

#[cfg(test)]
mod tests {
    use super::discard_private;
    use vm_memory::{Bytes, GuestAddress, GuestMemoryMmap};

    #[test]
    fn range_outside_of_one_region_and_unaligned_start_change_nothing() {
        let regions = [0, 0x4000].map(|start| (GuestAddress(start), 0x4000));
        let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&regions).unwrap();
        let is_one = |address| memory.read_obj::<u8>(GuestAddress(address)).unwrap() == 1;
        for page in 0..8 {
            memory.write_obj(1_u8, GuestAddress(page << 12)).unwrap();
        }
        for (start, size) in [(0x3000, 0x2000), (0x7000, 0x2000), (0x8000, 0x1000), (0x800, 0x1000)] {
            assert!(!discard_private(&memory, GuestAddress(start), size), "{start:#x}");
        }
        assert!((0..8).all(|page| is_one(page << 12)));
        // The length is rounded up.
        assert!(discard_private(&memory, GuestAddress(0x3000), 0x800));
        assert!(is_one(0x2000) && !is_one(0x3000) && is_one(0x4000));
    }
}
