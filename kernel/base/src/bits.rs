//! Sets of small numbers as the bits of a word.

/// Returns the bit of a number in a set of numbers below 64, such as CPUs. The number is below 64.
#[inline]
#[must_use]
pub const fn bit(number: u32) -> u64 {
    1 << (number % u64::BITS)
}

#[cfg(test)]
mod tests {
    use super::bit;

    #[test]
    fn each_number_has_a_bit_of_its_own() {
        assert_eq!((0..64).map(bit).fold(0, |set, bit| set ^ bit), u64::MAX);
        assert_eq!((bit(0), bit(63)), (1, 1 << 63));
    }
}
