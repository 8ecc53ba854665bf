//! The machine's memory, which is mapped one to one.

use core::ffi::{CStr, c_char};
use core::ptr::{self, with_exposed_provenance, with_exposed_provenance_mut};

use hermit_boot::PhysicalMemory;
use hermit_interface::address::{AddressRange, PAGE_SIZE};
use hermit_interface::to_usize;
use zerocopy::FromBytes;

use crate::MAPPED_END;

fn pointer<T>(address: u64) -> *const T {
    assert!(address < MAPPED_END, "address {address:#x} is not mapped");
    with_exposed_provenance(to_usize(address))
}

fn pointer_mut<T>(address: u64) -> *mut T {
    assert!(address < MAPPED_END, "address {address:#x} is not mapped");
    with_exposed_provenance_mut(to_usize(address))
}

/// Reads a structure that the machine monitor left behind. Any bytes make a valid `T`.
pub(crate) fn read<T: FromBytes>(address: u64) -> T {
    // SAFETY: the address is mapped (checked), and `FromBytes` makes any bytes a value. Reading RAM or the holes
    // in it has no effect.
    unsafe { pointer::<T>(address).read_unaligned() }
}

/// The bytes of a NUL-terminated string that the machine monitor left behind, without the NUL.
pub(crate) fn string(address: u64) -> &'static [u8] {
    // SAFETY: both boot protocols terminate their strings; the memory is free only after the last use of this
    // one, which is when it is copied into the boot information.
    unsafe { CStr::from_ptr(pointer::<c_char>(address)) }.to_bytes()
}

/// Where bytes lie.
pub(crate) fn range_of(bytes: &[u8]) -> AddressRange {
    let start = bytes.as_ptr().addr() as u64;
    AddressRange { start, end: start + bytes.len() as u64 }
}

/// The pages that a range touches.
pub(crate) fn whole_pages(range: AddressRange) -> AddressRange {
    AddressRange { start: range.start & !(PAGE_SIZE - 1), end: range.end.next_multiple_of(PAGE_SIZE) }
}

/// The bytes of a range.
///
/// # Safety
///
/// The range must be RAM that nobody writes as long as the result lives.
pub(crate) unsafe fn bytes(range: AddressRange) -> &'static [u8] {
    assert!(range.end <= MAPPED_END, "the image lies above 4 GiB");
    // SAFETY: mapped (checked); not written (the caller's promise).
    unsafe { core::slice::from_raw_parts(pointer(range.start), to_usize(range.size())) }
}

/// Memory as the loader sees it.
#[derive(Debug)]
pub(crate) struct Identity;

impl PhysicalMemory for Identity {
    fn write(&mut self, address: u64, bytes: &[u8]) {
        // SAFETY: mapped (checked), and free memory by the contract of `PhysicalMemory`, so it is no part of
        // the loader or of `bytes`.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), pointer_mut(address), bytes.len()) };
    }

    fn zero(&mut self, address: u64, size: u64) {
        // SAFETY: as in `write`.
        unsafe { ptr::write_bytes(pointer_mut::<u8>(address), 0, to_usize(size)) };
    }

    fn read_word(&self, address: u64) -> u64 {
        read(address)
    }

    fn write_word(&mut self, address: u64, word: u64) {
        // SAFETY: as in `write`.
        unsafe { pointer_mut::<u64>(address).write_unaligned(word) };
    }
}
