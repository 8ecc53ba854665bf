//! Address arithmetic: page sizes and half-open address ranges.

/// Size of a page in bytes: 4 KiB.
pub const PAGE_SIZE: u64 = 4096;

/// Size of a large page in bytes: 2 MiB. An entry of a page directory maps a large page.
pub const LARGE_PAGE_SIZE: u64 = 2 << 20;

/// A half-open range of addresses, `start..end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressRange {
    /// First address of the range.
    pub start: u64,
    /// First address after the range.
    pub end: u64,
}

impl AddressRange {
    /// Size of the range in bytes; 0 if `end` is below `start`.
    #[must_use]
    pub const fn size(self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}
