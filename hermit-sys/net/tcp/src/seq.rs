//! Sequence numbers (RFC 9293 §3.4).

use core::ops::{Add, Sub};

/// A sequence number: 32 bits that wrap around. Two of them are compared by their distance, which is below
/// 2^31 for all numbers of one window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seq(pub u32);

impl Seq {
    /// True if this number is before `other`.
    #[must_use]
    pub const fn is_before(self, other: Self) -> bool {
        self.0.wrapping_sub(other.0).cast_signed() < 0
    }

    /// True if this number is `other` or before it.
    #[must_use]
    pub const fn is_up_to(self, other: Self) -> bool {
        !other.is_before(self)
    }

    /// Distance from `earlier` to this number; 0 if this number is before `earlier`.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u32 {
        if self.is_before(earlier) { 0 } else { self.0.wrapping_sub(earlier.0) }
    }

    /// The later one of two numbers.
    #[must_use]
    pub const fn max(self, other: Self) -> Self {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier one of two numbers.
    #[must_use]
    pub const fn min(self, other: Self) -> Self {
        if self.is_before(other) { self } else { other }
    }

    /// True if this number is in `start..start + size`.
    #[must_use]
    pub const fn is_in(self, start: Self, size: u32) -> bool {
        self.0.wrapping_sub(start.0) < size
    }
}

impl Add<u32> for Seq {
    type Output = Self;

    fn add(self, size: u32) -> Self {
        Self(self.0.wrapping_add(size))
    }
}

impl Sub<u32> for Seq {
    type Output = Self;

    fn sub(self, size: u32) -> Self {
        Self(self.0.wrapping_sub(size))
    }
}

#[cfg(test)]
mod tests {
    use super::Seq;

    #[test]
    fn comparison_holds_across_the_wrap() {
        let (before, after) = (Seq(u32::MAX - 1), Seq(3));
        assert!(before.is_before(after) && !after.is_before(before));
        assert!(before.is_up_to(before) && !before.is_before(before));
        assert_eq!((after.since(before), before.since(after)), (5, 0));
        assert_eq!((before.max(after), before.min(after)), (after, before));
        assert_eq!((before + 5, after - 5), (after, before));
        assert!(after.is_in(before, 6) && !after.is_in(before, 5) && !(before - 1).is_in(before, 5));
    }
}
