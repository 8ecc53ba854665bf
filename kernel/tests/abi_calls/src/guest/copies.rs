//! Copying, setting and comparing memory, which the compiler leaves to functions that set-up makes faster.

use std::hint::black_box;

/// Bytes before and after those that are written: more than the distance of any move.
const MARGIN: usize = 256;

/// Positions of the source and the destination of a copy, relative to [`MARGIN`]: separate, the same, and
/// with all kinds of overlap.
const MOVES: [(usize, usize); 30] = [
    (0, 1),
    (1, 0),
    (3, 10),
    (10, 3),
    (0, 16),
    (17, 0),
    (0, 33),
    (33, 1),
    (2, 70),
    (90, 0),
    (0, 17),
    (16, 0),
    (0, 31),
    (31, 0),
    (0, 32),
    (32, 0),
    (0, 63),
    (63, 0),
    (0, 64),
    (64, 0),
    (0, 65),
    (65, 0),
    (0, 127),
    (127, 0),
    (0, 128),
    (129, 0),
    (0, 255),
    (255, 0),
    (5, 5),
    (0, usize::MAX),
];

/// Sizes at which the functions change their method, neighbouring sizes, and a few large sizes.
fn sizes() -> impl Iterator<Item = usize> {
    (0..=300).chain([511, 512, 513, 1023, 1024, 1025, 4095, 4096, 4097, 20_000])
}

/// Each byte that should change has its new value, and each other one its old value.
pub(crate) fn copies() {
    for size in sizes() {
        for (from, to) in MOVES {
            copy_within(size, MARGIN + from, MARGIN + to.min(size + 1));
        }
        for offset in 0..3 {
            copy_between(size, MARGIN + offset);
            fill(size, MARGIN + offset);
            compare(size, offset);
        }
    }
}

/// The byte of a buffer at this index.
fn pattern(index: usize) -> u8 {
    (index * 7 % 251).to_le_bytes()[0]
}

fn buffer(size: usize) -> Vec<u8> {
    (0..3 * MARGIN + 2 * size).map(pattern).collect()
}

/// Fails unless the bytes from `start` on are those of `expected`, and all others those of [`pattern`].
fn check(buffer: &[u8], start: usize, size: usize, expected: impl Fn(usize) -> u8) {
    for (index, &byte) in buffer.iter().enumerate() {
        let is_written = index >= start && index < start + size;
        let value = if is_written { expected(index - start) } else { pattern(index) };
        assert_eq!(byte, value, "byte {index} after {size} were written at {start}");
    }
}

/// `memmove`.
fn copy_within(size: usize, from: usize, to: usize) {
    let mut bytes = buffer(size);
    bytes.copy_within(from..from + black_box(size), to);
    check(&bytes, to, size, |index| pattern(from + index));
}

/// `memcpy`.
fn copy_between(size: usize, to: usize) {
    let source: Vec<u8> = (0..size).map(|index| !pattern(index)).collect();
    let mut bytes = buffer(size);
    bytes[to..to + black_box(size)].copy_from_slice(&source);
    check(&bytes, to, size, |index| !pattern(index));
}

/// `memset`.
fn fill(size: usize, start: usize) {
    let mut bytes = buffer(size);
    bytes[start..start + black_box(size)].fill(black_box(0xa5));
    check(&bytes, start, size, |_| 0xa5);
}

/// `memcmp`, with a difference nowhere, and from the first, the middle and the last byte on: in that byte
/// alone, and in all bytes that follow, whose order is often another one.
fn compare(size: usize, offset: usize) {
    let bytes = buffer(size);
    let mut other = buffer(size);
    let range = offset..offset + black_box(size);
    assert!(bytes[range.clone()] == other[range.clone()], "{size} equal bytes");
    for index in [0, size / 2, size.saturating_sub(1)].into_iter().filter(|&index| index < size) {
        let first = offset + index;
        for different in [first..first + 1, first..range.end] {
            other[different.clone()].iter_mut().for_each(|byte| *byte ^= 0x80);
            let expected = bytes[first].cmp(&other[first]);
            let found = bytes[range.clone()].cmp(&other[range.clone()]);
            assert_eq!(found, expected, "byte {index} of {size} differs");
            other[different].iter_mut().for_each(|byte| *byte ^= 0x80);
        }
    }
}
