//! Reads the file of an image without its debugging information, which often is most of the file.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use hermit_interface::boot_info::Region;
use hermit_interface::image::{self, parts};
use hermit_interface::to_usize;
use zerocopy::FromZeros as _;

/// Maximum distance in bytes between two parts of a file that are read with one call.
const MAX_GAP: usize = 4096;

/// Contents of a file that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// The bytes of the file. Parts that were not read are zero.
    pub(super) bytes: Vec<u8>,
    /// True if [code](parts::code) was not read.
    pub(super) lacks_code: bool,
}

/// Reads the [parts](mod@parts) of an image from a file, and leaves the rest zero. Code is read only if it
/// must be checked. Returns `None` if the file has more than `limit` bytes. If the header is not that of an
/// image, only the header is read: it is enough for the error message.
pub(super) fn read_within(file: &File, limit: u64) -> io::Result<Option<Contents>> {
    let size = file.metadata()?.len();
    if size > limit {
        return Ok(None);
    }
    let size = to_usize(size);
    let mut header = vec![0; parts::HEADER_SIZE.min(size)];
    file.read_exact_at(&mut header, 0)?;
    Ok(Some(read_parts(file, &header, size)?.unwrap_or(Contents { bytes: header, lacks_code: false })))
}

/// Reads the parts of a file with this header. Returns `None` if it is not the header of an image.
fn read_parts(file: &File, header: &[u8], size: usize) -> io::Result<Option<Contents>> {
    // A large zeroed allocation takes memory only for pages that are written, and returns to the host when it
    // is freed. (glibc's allocator would keep it if a block of this size had been freed before, see
    // `M_MMAP_THRESHOLD`.)
    let mut bytes = u8::new_vec_zeroed(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
    if let Some(place) = bytes.get_mut(..header.len()) {
        place.copy_from_slice(header);
    }
    let Some(tables) = parts::tables(&bytes) else { return Ok(None) };
    let clip = |part: Region| to_usize(part.start).min(size)..to_usize(part.end()).min(size);
    read_ranges(file, &mut bytes, tables.into_iter().map(clip).collect())?;
    let contents = parts::contents(&bytes).map(clip).collect();
    read_ranges(file, &mut bytes, contents)?;
    let lacks_code = image::check(&bytes).is_ok();
    if !lacks_code {
        let code = parts::code(&bytes).map(clip).collect();
        read_ranges(file, &mut bytes, code)?;
    }
    Ok(Some(Contents { bytes, lacks_code }))
}

/// Reads ranges of the file to the same places in `bytes`.
fn read_ranges(file: &File, bytes: &mut [u8], ranges: Vec<Range<usize>>) -> io::Result<()> {
    for range in join(ranges) {
        let start = range.start as u64;
        if let Some(piece) = bytes.get_mut(range) {
            file.read_exact_at(piece, start)?;
        }
    }
    Ok(())
}

/// Joins ranges that overlap or are close to each other. So no byte is read twice, even if the headers of a
/// hostile file name the same bytes often.
fn join(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start < last.end.saturating_add(MAX_GAP) => {
                last.end = last.end.max(range.end);
            }
            _ => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::{Contents, MAX_GAP, join, read_ranges, read_within};
    use hermit_interface::boot_info::Region;
    use hermit_interface::image::sample::Sample;
    use hermit_interface::image::{self, parts};
    use hermit_interface::to_usize;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use std::ops::Range;
    use std::os::unix::fs::FileExt;
    use tempfile::NamedTempFile;

    #[test]
    fn parts_of_an_image_are_read_and_the_rest_is_zero() {
        let image = Sample::default().build();
        let file = NamedTempFile::new().unwrap();
        let unused = [0xaa; 0x10000];
        file.as_file().write_all_at(&image, 0).unwrap();
        file.as_file().write_all_at(&unused, image.len() as u64).unwrap();
        let Contents { bytes, lacks_code } = read_within(file.as_file(), 1 << 20).unwrap().unwrap();
        assert_eq!((bytes.len(), lacks_code), (image.len() + unused.len(), true));
        for part in parts::contents(&image) {
            assert!(range(part, &bytes) == range(part, &image), "{part:?}");
        }
        let code: Vec<_> = parts::code(&image).collect();
        assert!(code.len() == 1 && range(code[0], &bytes).iter().all(|byte| *byte == 0));
        assert!(bytes[image.len()..].iter().all(|byte| *byte == 0));
    }

    /// Returns a part of a file.
    fn range(part: Region, file: &[u8]) -> &[u8] {
        &file[to_usize(part.start)..to_usize(part.end())]
    }

    /// Flag of a segment (ELF gABI, `PF_X`).
    const EXECUTABLE: u32 = 1;

    /// Some linkers place relocations in a segment of code.
    #[test]
    fn code_with_relocations_is_read() {
        let mut sample = Sample::default();
        // The first segment has the headers and the relocations.
        sample.segments[0].flags |= EXECUTABLE;
        let image = sample.build();
        image::check(&image).unwrap();
        let file = NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&image, 0).unwrap();
        let Contents { bytes, lacks_code } = read_within(file.as_file(), 1 << 20).unwrap().unwrap();
        assert!(!lacks_code);
        for part in parts::contents(&image).chain(parts::code(&image)) {
            assert!(range(part, &bytes) == range(part, &image), "{part:?}");
        }
    }

    #[test]
    fn truncated_image_is_rejected_as_it_is() {
        let image = Sample::default().build();
        for size in [63, 64, 65, 200, image.len() - 1] {
            let file = NamedTempFile::new().unwrap();
            file.as_file().write_all_at(&image[..size], 0).unwrap();
            let contents = read_within(file.as_file(), 1 << 20).unwrap().unwrap();
            let error = |bytes: &[u8]| image::check(bytes).map(|_| ()).unwrap_err();
            assert!(error(&contents.bytes) == error(&image[..size]) && !contents.lacks_code, "{size}");
        }
    }

    #[test]
    fn ranges_in_any_order_that_overlap_are_read() {
        let file = NamedTempFile::new().unwrap();
        file.as_file().write_all_at(&[1; 0x8000], 0).unwrap();
        let mut bytes = [0; 0x8000];
        read_ranges(file.as_file(), &mut bytes, vec![0x4000..0x4100, 5..9, 0..8, 0x4080..0x4081]).unwrap();
        let read: Vec<_> = (0..bytes.len()).filter(|index| bytes[*index] == 1).collect();
        assert_eq!(read, (0..9).chain(0x4000..0x4100).collect::<Vec<_>>());
    }

    /// Tests long ranges that each contain the start of a short range.
    #[test]
    fn no_byte_is_read_twice() {
        let ranges = (0..1000_usize).flat_map(|number| {
            let start = number * 3 * MAX_GAP;
            [start..1 << 30, start + 1..start + 2]
        });
        let joined = join(ranges.collect());
        assert!(matches!(joined[..], [Range { start: 0, end: 0x4000_0000 }]), "{joined:?}");
        assert_eq!(join(vec![MAX_GAP + 2..MAX_GAP + 3, 0..1]), [0..1, MAX_GAP + 2..MAX_GAP + 3]);
    }

    proptest! {
        #[test]
        fn joined_ranges_have_all_bytes_once(ranges in vec((0..1_usize << 20, 0..1_usize << 16), 0..40)) {
            let ranges: Vec<_> = ranges.into_iter().map(|(start, size)| start..start + size).collect();
            let joined = join(ranges.clone());
            let is_in_one = |range: &Range<usize>| {
                joined.iter().any(|whole| whole.start <= range.start && range.end <= whole.end)
            };
            prop_assert!(ranges.iter().all(is_in_one));
            prop_assert!(joined.windows(2).all(|pair| pair[0].end < pair[1].start));
        }
    }

    #[test]
    fn header_alone_is_read_of_a_file_that_is_no_image() {
        let file = NamedTempFile::new().unwrap();
        for (size, is_read) in [(0, true), (4096, true), (4097, false)] {
            file.as_file().set_len(size).unwrap();
            let contents = read_within(file.as_file(), 4096).unwrap();
            let length = contents.map(|contents| contents.bytes.len() as u64);
            assert_eq!(length, is_read.then_some(size.min(64)));
        }
    }
}
