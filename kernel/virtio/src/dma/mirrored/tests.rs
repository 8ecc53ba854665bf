//! Spans: splitting, joining and exclusive ownership of bytes.

use proptest::prelude::*;
use std::vec::Vec;

use super::{MirroredMemory, Span};
use crate::dma::{DmaPermit, DmaSegment};
use crate::testing::{DeviceModel, FakeDma, FakeMirrored};

const MEMORY_SIZE: usize = 8192;

fn mirrored() -> Span<FakeMirrored> {
    let model = DeviceModel::new(1, 0, &[]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 4);
    Span::allocate(&dma, MEMORY_SIZE, &DmaPermit::default()).unwrap()
}

/// For each segment, its offset in the memory and its length.
fn offsets(span: &Span<FakeMirrored>, segments: impl Iterator<Item = DmaSegment>) -> Vec<(u64, u32)> {
    let start = span.memory.device_address();
    segments.map(|segment| (segment.address - start, segment.length)).collect()
}

#[test]
fn invalid_sizes_are_refused() {
    let model = DeviceModel::new(1, 0, &[]);
    let dma = FakeDma::new(&model.lock().unwrap().memory, 4);
    for size in [0, 1, 2048, 4097, 12_288, 32_768, usize::MAX / 2 + 1] {
        assert!(Span::allocate(&dma, size, &DmaPermit::default()).is_none(), "{size}");
    }
    assert!(Span::allocate(&dma, 16_384, &DmaPermit::default()).is_some());
}

#[test]
fn span_wraps_around_end_of_memory() {
    let mut rest = mirrored();
    let mut front = rest.split_front(MEMORY_SIZE - 100).unwrap();
    assert_eq!(
        (front.start(), front.size(), rest.start(), rest.size()),
        (0, MEMORY_SIZE - 100, MEMORY_SIZE - 100, 100)
    );
    front.with_bytes(|bytes| bytes.fill(1));
    rest.with_bytes(|bytes| bytes.fill(2));
    rest.append(front).unwrap();
    rest.with_bytes(|bytes| {
        assert_eq!(bytes.len(), MEMORY_SIZE);
        assert!(bytes[..100].iter().all(|byte| *byte == 2) && bytes[100..].iter().all(|byte| *byte == 1));
    });
    assert_eq!(offsets(&rest, rest.readable(0..MEMORY_SIZE)), [(8092, 100), (0, 8092)]);
    assert_eq!(offsets(&rest, rest.readable(100..200)), [(0, 100)]);
    assert_eq!(offsets(&rest, rest.readable(50..150)), [(8142, 50), (0, 50)]);
    assert_eq!(offsets(&rest, rest.readable(0..100)), [(8092, 100)]);
    assert!(rest.writable(0..200).all(|segment| segment.writable));
    assert!(rest.readable(0..200).all(|segment| !segment.writable));
    // The range is clamped to the span.
    assert_eq!(offsets(&rest, rest.readable(MEMORY_SIZE - 1..usize::MAX)), [(8091, 1)]);
    assert_eq!(offsets(&rest, rest.readable(MEMORY_SIZE..usize::MAX)), []);
    assert_eq!(offsets(&rest, rest.readable(usize::MAX..usize::MAX)), []);
}

#[test]
fn only_the_following_span_is_appended() {
    let mut first = mirrored();
    let mut third = first.split_front(64).unwrap();
    let second = first.split_front(64).unwrap();
    assert!(first.split_front(MEMORY_SIZE).is_none());
    // `first` is the remainder, from offset 128 to the end: `third`, at offset 0, follows it; `second` does
    // not.
    let second = first.append(second).unwrap_err();
    assert!(third.append(mirrored()).is_err());
    assert_eq!((third.append(second).is_ok(), third.size()), (true, 128));
    assert_eq!((first.append(third).is_ok(), first.size()), (true, MEMORY_SIZE));
}

#[test]
fn whole_memory_is_split_off_and_appended() {
    let mut rest = mirrored();
    let all = rest.split_front(MEMORY_SIZE).unwrap();
    assert_eq!((rest.size(), rest.start()), (0, 0));
    assert!(rest.split_front(1).is_none());
    assert!(rest.append(all).is_ok());
    assert_eq!(rest.split_front(MEMORY_SIZE).map(|span| span.size()), Some(MEMORY_SIZE));
}

#[test]
fn adjacent_spans_are_joined() {
    let mut rest = mirrored();
    let mut spans: Vec<_> = core::iter::from_fn(|| rest.split_front(2048)).collect();
    for (number, span) in (0..).zip(&mut spans) {
        span.with_bytes(|bytes| bytes.fill(number));
    }
    spans.rotate_left(3);
    let firsts = |bytes: &mut [u8]| (bytes.len(), bytes.iter().step_by(2048).copied().collect());
    assert_eq!(Span::with_joined(&mut spans, firsts), Some((MEMORY_SIZE, Vec::from([3, 0, 1, 2]))));
    assert_eq!(Span::with_joined(&mut spans[1..3], firsts), Some((4096, Vec::from([0, 1]))));
    assert_eq!(Span::with_joined(&mut spans[..1], firsts), Some((2048, Vec::from([3]))));
    assert_eq!(Span::with_joined(&mut spans[..0], firsts), None);
    spans.swap(1, 2);
    assert_eq!(Span::with_joined(&mut spans, firsts), None);
    let mut other_memory = Vec::from([rest, mirrored()]);
    assert_eq!(Span::with_joined(&mut other_memory, |_| ()), None);
}

proptest! {
    /// However memory is split and appended, each byte has exactly one owner.
    #[test]
    fn spans_never_overlap(steps in prop::collection::vec((any::<prop::sample::Index>(), 0..MEMORY_SIZE + 2), 0..60)) {
        let mut spans = Vec::from([mirrored()]);
        for (which, size) in steps {
            let index = which.index(spans.len());
            let span = &mut spans[index];
            if size.is_multiple_of(3) && span.size() > 0 {
                // Appends the span that follows.
                let mut span = spans.swap_remove(index);
                if let Some(next) = spans.iter().position(|next| span.is_followed_by(next) && next.size() > 0) {
                    prop_assert!(span.append(spans.swap_remove(next)).is_ok());
                }
                spans.push(span);
            } else if let Some(front) = span.split_front(size) {
                spans.push(front);
            }
        }
        let mut owners = [0; MEMORY_SIZE];
        for span in &spans {
            for (start, length) in offsets(span, span.readable(0..MEMORY_SIZE)) {
                let start = usize::try_from(start).unwrap();
                owners[start..start + usize::try_from(length).unwrap()].iter_mut().for_each(|count| *count += 1);
            }
        }
        prop_assert!(owners.iter().all(|count| *count == 1));
    }
}
