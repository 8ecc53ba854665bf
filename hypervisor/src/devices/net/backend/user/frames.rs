//! Parts of frames in guest memory.

use std::ops::Range;

use vm_memory::VolatileSlice;

use crate::devices::virtio::chain::Slices;

/// Returns the slices of `buffers` that hold the bytes `part` of the frame.
pub(super) fn part<'a>(buffers: &[VolatileSlice<'a>], part: Range<usize>) -> Slices<'a> {
    let mut slices = Slices::new();
    let mut start = 0;
    for buffer in buffers {
        let end = start + buffer.len();
        let (from, to) = (part.start.max(start), part.end.min(end));
        if from < to {
            slices.extend(buffer.subslice(from - start, to - from).ok());
        }
        start = end;
    }
    slices
}

/// Returns the total size of the buffers in bytes.
pub(super) fn length(buffers: &[VolatileSlice<'_>]) -> usize {
    buffers.iter().map(VolatileSlice::len).sum()
}

#[cfg(test)]
mod tests {
    use super::{length, part};
    use crate::devices::net::backend::iovec::gather;
    use vm_memory::VolatileSlice;

    #[test]
    fn part_has_the_bytes_of_all_buffers_in_it() {
        let (mut a, mut b, mut c) = ([1, 2, 3], [], [4, 5, 6, 7]);
        let buffers = [&mut a[..], &mut b, &mut c].map(VolatileSlice::from);
        assert_eq!(length(&buffers), 7);
        for start in 0..=7 {
            for end in start..=9 {
                let mut found = Vec::new();
                gather(&part(&buffers, start..end), &mut found);
                assert_eq!(found, (1..8).collect::<Vec<u8>>()[start..end.min(7)], "{start} {end}");
            }
        }
    }
}
