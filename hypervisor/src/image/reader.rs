//! Reading of an image's file: without debugging information, which is most of many files.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use hermit_interface::boot_info::Region;
use hermit_interface::image::{self, parts};
use hermit_interface::to_usize;
use zerocopy::FromZeros as _;

/// Distance in bytes up to which two parts of a file are read by one call.
const MAX_GAP: usize = 4096;

/// Contents of a file that was read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Contents {
    /// The bytes, with zeros in place of what was not read.
    pub(super) bytes: Vec<u8>,
    /// Whether [code](parts::code) was not read.
    pub(super) lacks_code: bool,
}

/// Reads a file, or of an ELF file the [parts](mod@parts) that an image consists of, without its code if that need not be
/// checked, and leaves the rest zero. `None` if it has more than `limit` bytes. What has no size, such as a pipe, is read up to
/// there.
pub(super) fn read_within(file: &File, limit: u64) -> io::Result<Option<Contents>> {
    let size = file.metadata()?.len();
    if size > limit {
        return Ok(None);
    }
    if size > parts::HEADER_SIZE as u64
        && let Some(contents) = read_parts(file, to_usize(size))?
    {
        return Ok(Some(contents));
    }
    let mut bytes = Vec::new();
    // Growing the buffer in steps would copy it, and fragment the heap.
    bytes.try_reserve_exact(to_usize(size))?;
    file.take(limit + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= limit).then_some(Contents { bytes, lacks_code: false }))
}

/// Reads the parts of an ELF file; `None` of another one.
fn read_parts(file: &File, size: usize) -> io::Result<Option<Contents>> {
    // Zeros that are never written to take no memory: the allocator gets them from the host, and gives them back at the end. It
    // would keep them if a block of that size had been freed before (`M_MMAP_THRESHOLD` of glibc).
    let mut bytes = u8::new_vec_zeroed(size).map_err(|_| io::ErrorKind::OutOfMemory)?;
    if let Some(header) = bytes.get_mut(..parts::HEADER_SIZE) {
        file.read_exact_at(header, 0)?;
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

/// Reads ranges of the file to the same places in `bytes`; those that are close to each other by one call.
fn read_ranges(file: &File, bytes: &mut [u8], mut ranges: Vec<Range<usize>>) -> io::Result<()> {
    ranges.sort_unstable_by_key(|range| range.start);
    let joined = ranges.chunk_by(|one, next| next.start <= one.end.saturating_add(MAX_GAP));
    for ranges in joined {
        let start = ranges.first().map_or(0, |first| first.start);
        let end = ranges.iter().map(|range| range.end).max().unwrap_or(start);
        if let Some(piece) = bytes.get_mut(start..end) {
            file.read_exact_at(piece, start as u64)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Contents, read_ranges, read_within};
    use hermit_interface::boot_info::Region;
    use hermit_interface::image::sample::Sample;
    use hermit_interface::image::{self, parts};
    use hermit_interface::to_usize;
    use std::fs::File;
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

    /// A part of a file.
    fn range(part: Region, file: &[u8]) -> &[u8] {
        &file[to_usize(part.start)..to_usize(part.end())]
    }

    /// Flag of a segment (ELF gABI, `PF_X`).
    const EXECUTABLE: u32 = 1;

    /// As some linkers place them.
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
    fn truncated_image_is_read_as_it_is() {
        let image = Sample::default().build();
        for size in [63, 64, 65, 200, image.len() - 1] {
            let file = NamedTempFile::new().unwrap();
            file.as_file().write_all_at(&image[..size], 0).unwrap();
            let contents = read_within(file.as_file(), 1 << 20).unwrap().unwrap();
            assert!(contents.bytes == image[..size] && !contents.lacks_code, "{size}");
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

    /// The size of a device is 0, and a file may grow after its size was read.
    #[test]
    fn read_ends_at_the_limit_whatever_the_size_says() {
        let endless = File::open("/dev/zero").unwrap();
        assert_eq!(read_within(&endless, 1 << 20).unwrap(), None);
        let file = NamedTempFile::new().unwrap();
        for (size, is_read) in [(0, true), (4096, true), (4097, false)] {
            file.as_file().set_len(size).unwrap();
            let contents = read_within(file.as_file(), 4096).unwrap();
            assert_eq!(contents.map(|contents| contents.bytes.len() as u64), is_read.then_some(size));
        }
    }
}
