//! Access to physical memory through the identity mapping.

use core::ffi::{CStr, c_char};
use core::ptr::{self, with_exposed_provenance, with_exposed_provenance_mut};

use hermit_boot::{FreeMemory, PhysicalMemory};
use hermit_interface::address::{AddressRange, PAGE_SIZE};
use hermit_interface::to_usize;
use zerocopy::FromBytes;

use crate::IDENTITY_MAP_END;

/// Pointer to a physical address.
fn pointer<T>(address: u64) -> *const T {
    assert!(address < IDENTITY_MAP_END, "address {address:#x} is not mapped");
    with_exposed_provenance(to_usize(address))
}

/// Pointer to a physical address, for writes.
fn pointer_mut<T>(address: u64) -> *mut T {
    assert!(address < IDENTITY_MAP_END, "address {address:#x} is not mapped");
    with_exposed_provenance_mut(to_usize(address))
}

/// Reads a structure of the boot protocol.
pub(crate) fn read<T: FromBytes>(address: u64) -> T {
    // SAFETY: the start is below the end of the identity mapping (checked), and any bytes are a `T` by
    // `FromBytes`. The VMM passes addresses of RAM. If an address is in a hole instead, the read returns
    // arbitrary bytes.
    unsafe { pointer::<T>(address).read_unaligned() }
}

/// The bytes of a NUL-terminated string of the boot protocol, without the NUL.
pub(crate) fn string(address: u64) -> &'static [u8] {
    // SAFETY: both boot protocols require that the VMM ends strings with NUL. `place` excludes the string's
    // pages from the memory that the loader writes.
    unsafe { CStr::from_ptr(pointer::<c_char>(address)) }.to_bytes()
}

/// Physical range of bytes.
pub(crate) fn range_of(bytes: &[u8]) -> AddressRange {
    let start = bytes.as_ptr().addr() as u64;
    AddressRange { start, end: start + bytes.len() as u64 }
}

/// The pages that a range touches.
pub(crate) fn whole_pages(range: AddressRange) -> AddressRange {
    AddressRange { start: range.start & !(PAGE_SIZE - 1), end: range.end.next_multiple_of(PAGE_SIZE) }
}

/// Returns true if all of a range is usable memory.
pub(crate) fn is_usable(usable: &FreeMemory, range: AddressRange) -> bool {
    usable.as_slice().iter().any(|free| free.start <= range.start && range.end <= free.end)
}

/// The bytes of a physical range.
///
/// # Safety
///
/// The range must be RAM, and nothing may write to it while the result is used.
pub(crate) unsafe fn bytes(range: AddressRange) -> &'static [u8] {
    assert!(range.end <= IDENTITY_MAP_END, "the image lies above 4 GiB");
    // SAFETY: the range is mapped (checked), and by the contract of this function RAM that is not written.
    unsafe { core::slice::from_raw_parts(pointer(range.start), to_usize(range.size())) }
}

/// Physical memory below the end of the identity mapping.
#[derive(Debug)]
pub(crate) struct IdentityMapped;

impl PhysicalMemory for IdentityMapped {
    fn write(&mut self, address: u64, bytes: &[u8]) {
        // SAFETY: the start is mapped (checked), and all of the destination is free memory by the contract of
        // `PhysicalMemory`: mapped, and no part of the loader or of `bytes`, as `place` excludes them from
        // free memory.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), pointer_mut(address), bytes.len()) };
    }

    fn zero(&mut self, address: u64, size: u64) {
        // SAFETY: the start is mapped (checked), and all of the range is free memory by the contract of
        // `PhysicalMemory`: mapped, and without a reference to it.
        unsafe { ptr::write_bytes(pointer_mut::<u8>(address), 0, to_usize(size)) };
    }

    fn read_word(&self, address: u64) -> u64 {
        read(address)
    }

    fn write_word(&mut self, address: u64, word: u64) {
        // SAFETY: the address is mapped (checked), and a word of free memory by the contract of
        // `PhysicalMemory`, to which there is no reference.
        unsafe { pointer_mut::<u64>(address).write_unaligned(word) };
    }
}
