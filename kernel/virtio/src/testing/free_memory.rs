//! Free memory that no device model accesses.

use crate::balloon::FreeMemory;

/// A range of two pages in the MiB of this number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FakeRange(pub(crate) u64);

// SAFETY: there is no such memory, and device models do not access it.
#[expect(unsafe_code, reason = "the model of the kernel's memory")]
unsafe impl FreeMemory for FakeRange {
    fn address(&self) -> u64 {
        self.0 << 20
    }

    fn size(&self) -> u32 {
        0x2000
    }
}
