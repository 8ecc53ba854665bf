//! Tests of the memory functions on the host, in each variant.

#![expect(unsafe_code, reason = "the functions take raw pointers")]

use std::ops::Range;

use crate::functions::comparisons::compare_bytes;
use crate::functions::moves::{copy_backward, copy_forward, set_bytes};
use crate::functions::selection::{Variant, select};

const VARIANTS: [Variant; 4] = [Variant::Narrow, Variant::Wide, Variant::Words, Variant::Bytes];

/// Sizes up to which each one is tested.
const SHORT: usize = 600;

/// Sizes beside limits that are above [`SHORT`].
const LONG: [usize; 7] = [1023, 1024, 1025, 4095, 4096, 4097, MAX_SIZE];
const MAX_SIZE: usize = 5000;

/// Distances of source and destination: those that the functions distinguish, and those beside them.
const DISTANCES: [usize; 17] =
    [0, 1, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129, 191, 255, MAX_DISTANCE];
const MAX_DISTANCE: usize = 257;

/// Offsets of the first byte from a multiple of 64.
const ALIGNMENTS: [usize; 5] = [0, 1, 15, 32, 63];

/// Bytes before and after those that are used: a multiple of 64, and more than a block.
const MARGIN: usize = 192;

/// A buffer whose first byte has an address that is a multiple of 64.
#[derive(Clone, PartialEq)]
#[repr(align(64))]
struct Buffer([u8; 2 * MARGIN + 64 + MAX_SIZE + MAX_DISTANCE]);

impl Buffer {
    fn new() -> Self {
        Self(std::array::from_fn(|index| (index * 7 % 251).to_le_bytes()[0]))
    }

    /// Restores a range from a buffer that has not changed.
    fn restore(&mut self, range: Range<usize>, unchanged: &Self) {
        self.0[range.clone()].copy_from_slice(&unchanged.0[range]);
    }
}

fn sizes() -> impl Iterator<Item = usize> {
    (0..=SHORT).chain(LONG)
}

/// Calls a test with each variant that the processor has, and each size.
fn for_each(variants: &[Variant], mut test: impl FnMut(Variant, usize)) {
    for &variant in variants.iter().filter(|&&variant| select(variant)) {
        sizes().for_each(|size| test(variant, size));
    }
}

/// Moves as `memmove` does.
fn move_bytes(buffer: &mut Buffer, from: usize, to: usize, size: usize) {
    assert!(from.max(to) + size <= buffer.0.len());
    let start = buffer.0.as_mut_ptr();
    let (source, destination) = (start.wrapping_add(from), start.wrapping_add(to));
    let function = if to.wrapping_sub(from) >= size { copy_forward } else { copy_backward };
    // SAFETY: both ranges are in the buffer, which is borrowed exclusively.
    let end = unsafe { function(destination, source, size) };
    assert_eq!(end, destination, "`memmove` returns the destination");
}

#[test]
fn moves_write_the_bytes_of_the_source_and_no_others() {
    let unchanged = Buffer::new();
    let (mut buffer, mut expected) = (unchanged.clone(), unchanged.clone());
    let places: Vec<(usize, usize)> = ALIGNMENTS
        .into_iter()
        .flat_map(|alignment| DISTANCES.map(|distance| (MARGIN + alignment, MARGIN + alignment + distance)))
        .flat_map(|(near, far)| [(near, far), (far, near)])
        .collect();
    for_each(&VARIANTS, |variant, size| {
        for &(from, to) in &places {
            move_bytes(&mut buffer, from, to, size);
            expected.0.copy_within(from..from + size, to);
            assert!(buffer == expected, "{variant:?}: {size} bytes from {from} to {to}");
            buffer.restore(to..to + size, &unchanged);
            expected.restore(to..to + size, &unchanged);
        }
    });
}

#[test]
fn sets_write_no_other_bytes() {
    let unchanged = Buffer::new();
    let (mut buffer, mut expected) = (unchanged.clone(), unchanged.clone());
    for_each(&VARIANTS, |variant, size| {
        for start in (0..64).map(|alignment| MARGIN + alignment) {
            let range = start..start + size;
            // SAFETY: the range is in the buffer, which is borrowed exclusively.
            let _ = unsafe { set_bytes(buffer.0[range.clone()].as_mut_ptr(), 0xfe, size) };
            expected.0[range.clone()].fill(0xfe);
            assert!(buffer == expected, "{variant:?}: {size} bytes from {start}");
            buffer.restore(range.clone(), &unchanged);
            expected.restore(range, &unchanged);
        }
    });
}

/// The order of two slices of the same length.
fn compare(a: &[u8], b: &[u8]) -> i32 {
    assert_eq!(a.len(), b.len());
    // SAFETY: both slices have as many bytes.
    unsafe { compare_bytes(a.as_ptr(), b.as_ptr(), a.len()) }.signum()
}

/// Compares with a buffer that differs at each index of a range, and in the last byte, whose order is the
/// opposite.
fn compare_all(first: &Buffer, second: &mut Buffer, range: Range<usize>) -> Result<(), usize> {
    let step = if range.len() > SHORT { 61 } else { 1 };
    for index in range.clone().step_by(step) {
        let (last, byte) = (range.end - 1, first.0[index]);
        second.0[last] =
            if byte == 0 { first.0[last].saturating_sub(1) } else { first.0[last].saturating_add(1) };
        second.0[index] = byte.wrapping_sub(1);
        let expected = byte.cmp(&second.0[index]) as i32;
        if compare(&first.0[range.clone()], &second.0[range.clone()]) != expected {
            return Err(index);
        }
        second.restore(index..index + 1, first);
        second.restore(last..last + 1, first);
    }
    Ok(())
}

#[test]
fn comparisons_find_the_first_difference() {
    let first = Buffer::new();
    let mut second = first.clone();
    for_each(&[Variant::Narrow, Variant::Wide], |variant, size| {
        for start in [MARGIN, MARGIN + 31] {
            let range = start..start + size;
            // Bytes outside of the range differ.
            (second.0[range.start - 1], second.0[range.end]) = (0xff, 0xff);
            let order = compare(&first.0[range.clone()], &second.0[range.clone()]);
            assert_eq!(order, 0, "{variant:?}: {size} equal bytes");
            let result = compare_all(&first, &mut second, range.clone());
            assert_eq!(result, Ok(()), "{variant:?}: {size} bytes from {start}");
            second.restore(range.start - 1..range.end + 1, &first);
        }
    });
}
