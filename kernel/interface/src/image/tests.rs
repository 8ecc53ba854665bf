//! Each error of the image check, and arbitrary bytes.
//!
//! Each test changes one field of a valid [`Sample`] and expects the error that this change must cause. So an
//! image that the check accepts has none of these errors, and the loader need not look again. The last tests
//! feed random bytes and random changes: the check must return an error or a valid image, and never panic.

use alloc::vec::Vec;

use elf::abi::{self, PN_XNUM};
use proptest::collection::{btree_set, vec};
use proptest::prelude::any;
use proptest::proptest;
use zerocopy::IntoBytes;

use super::relocations::{DT_RELR, DT_RELRSZ};
use super::sample::{NOTE, ProgramHeader, Sample, TLS};
use super::{Image, ImageError, MAX_PROGRAM_HEADERS, SymbolTable, check, parts, word};

/// Relocations of the sample's table with addends.
const WITH_ADDENDS: [(u64, u64); 2] = [(0x2300, 0x1010), (0x3008, 0x2000)];

/// Relocations of the sample's packed table.
const PACKED: [(u64, u64); 3] = [(0x2400, 0x1011), (0x2418, 0x2001), (0x37f8, 0x3001)];

/// Offsets and addends of an image's relocations.
pub(super) fn relocations(image: &Image<'_>) -> Vec<(u64, u64)> {
    let mut all = Vec::new();
    image.for_each_relocation(|offset, addend| all.push((offset, addend)));
    all
}

/// The error of a changed sample.
fn error_of(change: impl FnOnce(&mut Sample)) -> ImageError {
    let mut sample = Sample::default();
    change(&mut sample);
    check(&sample.build()).map(|_| ()).expect_err("an invalid image passed")
}

#[test]
fn valid_image_passes() {
    let file = Sample::default().build();
    let image = check(&file).unwrap();
    assert_eq!((image.entry, image.size, image.align), (0x1010, 0x6000, 0x1000));
    let segments: Vec<_> = image.segments().collect();
    assert_eq!(segments.len(), 3);
    assert!(segments[1].execute && !segments[1].write && segments[2].write && !segments[2].execute);
    assert_eq!((segments[2].start, segments[2].size, segments[2].data.len()), (0x2000, 0x3123, 0x1800));
    assert_eq!(relocations(&image), [PACKED.as_slice(), &WITH_ADDENDS].concat());
    assert_eq!(image.read_only_after_relocation(), Some((0x2000, 0x3000)));
    let tls = image.tls().unwrap();
    assert_eq!((tls.start, tls.file_size, tls.memory_size, tls.align), (0x2200, 0x10, 0x30, 8));
}

/// Sizes of the symbol table and string table of a changed sample, which must pass.
fn symbols_of(change: impl FnOnce(&mut Sample)) -> Option<(usize, usize)> {
    let mut sample = Sample::default();
    change(&mut sample);
    let file = sample.build();
    let symbols = check(&file).unwrap().symbols()?;
    Some((symbols.table.len(), symbols.strings.len()))
}

#[test]
fn invalid_symbol_table_is_none() {
    assert_eq!(symbols_of(|_| ()), Some((48, 16)));
    let changes: [fn(&mut Sample); 12] = [
        |sample| (sample.header.shoff, sample.header.shnum) = (0, 0),
        |sample| sample.header.shnum = 1,
        |sample| sample.header.shnum = 2,
        |sample| sample.sections[1].kind = 0,
        |sample| sample.sections[1].entsize = 16,
        |sample| sample.sections[1].link = 1,
        |sample| sample.sections[1].link = u32::MAX,
        |sample| sample.sections[1].offset = u64::MAX,
        |sample| sample.sections[1].size = u64::MAX,
        |sample| sample.sections[1].size = 0,
        |sample| sample.sections[2].offset = 0x1_0000,
        |sample| sample.sections[2].size = 0,
    ];
    for (number, change) in changes.into_iter().enumerate() {
        assert_eq!(symbols_of(change), None, "change {number}");
    }
}

#[test]
fn other_files_are_identified() {
    let error = |bytes: &[u8]| check(bytes).map(|_| ()).unwrap_err();
    assert_eq!(error(b""), ImageError::NotElf);
    assert_eq!(error(b"#!/bin/sh"), ImageError::NotElf);
    assert_eq!(error(b"\x7fELF\x01\x01"), ImageError::Class);
    assert_eq!(error(b"\x7fELF\x02\x01"), ImageError::Truncated("header"));
    assert_eq!(error_of(|sample| sample.header.machine = 183), ImageError::Machine(183));
    assert_eq!(error_of(|sample| sample.header.kind = 2), ImageError::Type(2));
}

#[test]
fn tables_of_headers_are_bounded() {
    let headers = |count| error_of(|sample| sample.header.phnum = count);
    for count in [MAX_PROGRAM_HEADERS + 1, PN_XNUM] {
        assert_eq!(headers(count), ImageError::TooManyHeaders(count));
    }
    let missing = ImageError::Truncated("section headers");
    assert_eq!(error_of(|sample| sample.header.shnum = 0), missing, "their number is elsewhere");
    let files = [PN_XNUM, 7].map(|count| {
        let mut sample = Sample::default();
        sample.header.phnum = count;
        sample.build()
    });
    assert!(parts::tables(&files[0]).is_none() && parts::tables(&files[1]).is_some());
}

/// An image with as many segments as there may be, a page of data each, and with packed relocations at each
/// border.
#[test]
fn image_with_the_maximum_number_of_segments_passes() {
    let mut sample = Sample::default();
    let own = sample.segments;
    let (first, last) = (0x10, u64::from(MAX_PROGRAM_HEADERS) - own.len() as u64);
    let mut file = sample.build();
    let at = file.len().next_multiple_of(0x1000);
    file.resize(at, 0);
    // The table of program headers moves to the end of the file.
    sample.header.phoff = at as u64;
    sample.header.phnum = MAX_PROGRAM_HEADERS;
    let mut table: Vec<_> = own.to_vec();
    table.extend((0..last).map(|number| ProgramHeader {
        vaddr: (first + number) * 0x1000,
        filesz: 0x1000,
        memsz: 0x1000,
        ..own[2]
    }));
    let borders: Vec<_> = (1..last).map(|number| (first + number) * 0x1000 - 16).collect();
    let entries: Vec<_> = borders.iter().flat_map(|&border| [border, 0b111]).collect();
    let packed_at = at + 0x1000;
    file[..64].copy_from_slice(sample.header.as_bytes());
    file.extend_from_slice(table.as_bytes());
    file.resize(packed_at, 0);
    file.extend_from_slice(entries.as_bytes());
    // A segment with the relocations, at the end of the file.
    let with_table = ProgramHeader {
        offset: packed_at as u64,
        vaddr: (first + last - 1) * 0x1000,
        filesz: entries.as_bytes().len() as u64,
        memsz: 0x1000,
        flags: abi::PF_R,
        ..own[2]
    };
    let end = at + table.as_bytes().len();
    file[end - size_of::<ProgramHeader>()..end].copy_from_slice(with_table.as_bytes());
    let words = entries.len() / 2 - 1;
    let dynamic =
        [[DT_RELR.cast_unsigned(), with_table.vaddr], [DT_RELRSZ.cast_unsigned(), words as u64 * 16], [0, 0]];
    file[0x2000..0x2000 + size_of_val(&dynamic)].copy_from_slice(dynamic.as_bytes());
    let image = check(&file).unwrap();
    assert_eq!(relocations(&image).len(), 3 * words);
}

#[test]
fn large_notes_are_rejected() {
    let error = error_of(|sample| sample.segments[NOTE].filesz = 64 * 1024 + 1);
    assert_eq!(error, ImageError::Segment("its notes are too large"));
}

#[test]
fn note_is_checked() {
    assert_eq!(error_of(|sample| sample.segments[NOTE].kind = 0), ImageError::NoNote);
    assert_eq!(error_of(|sample| sample.note[12] = b'X'), ImageError::NoNote);
    assert_eq!(error_of(|sample| sample.note[8] = 7), ImageError::NoNote);
    assert_eq!(error_of(|sample| sample.note[20] = 99), ImageError::Abi(99));
    assert_eq!(error_of(|sample| sample.note[4] = 2), ImageError::Truncated("ABI note"));
}

#[test]
fn invalid_segments_are_rejected() {
    let segment = |text| ImageError::Segment(text);
    let (too_large, overlap) = (segment("it is too large"), segment("it overlaps another"));
    assert_eq!(error_of(|sample| sample.segments[2].memsz = 1 << 31), too_large);
    assert_eq!(error_of(|sample| sample.segments[2].vaddr = u64::MAX - 10), too_large);
    assert_eq!(error_of(|sample| sample.segments[2].vaddr = 0x1900), overlap);
    let larger = segment("it is larger in the file than in memory");
    assert_eq!(error_of(|sample| sample.segments[2].memsz = 0x100), larger);
    let both = segment("it is both writable and executable");
    assert_eq!(error_of(|sample| sample.segments[1].flags |= abi::PF_W), both);
    let align = segment("its alignment is no power of two");
    assert_eq!(error_of(|sample| sample.segments[0].align = 0x3000), align);
    let entry = segment("the entry point is outside the code");
    assert_eq!(error_of(|sample| sample.header.entry = 0x2000), entry);
    assert_eq!(error_of(|sample| sample.segments[1].kind = 0), entry);
    let tls = segment("the thread-local template does not fit");
    assert_eq!(error_of(|sample| sample.segments[TLS].vaddr = u64::MAX), tls);
    assert_eq!(error_of(|sample| sample.segments[TLS].align = 3), tls);
    assert_eq!(error_of(|sample| sample.segments[TLS].memsz = 8), tls);
    assert_eq!(error_of(|sample| sample.segments[0].offset = u64::MAX), ImageError::Truncated("segments"));
}

#[test]
fn relocations_must_be_relative_and_in_the_image() {
    let relocation = |text| ImageError::Relocation(text);
    assert_eq!(error_of(|sample| sample.relocations[1][1] = 6), relocation("against a symbol"));
    assert_eq!(error_of(|sample| sample.relocations[1][0] = 0x5ffc), relocation("outside the image"));
    assert_eq!(error_of(|sample| sample.relocations[1][0] = u64::MAX), relocation("outside the image"));
    assert_eq!(error_of(|sample| sample.dynamic[2][1] = 16), relocation("entry size"));
    assert_eq!(error_of(|sample| sample.dynamic[6][0] = 1), relocation("against a shared library"));
    assert_eq!(error_of(|sample| sample.dynamic[6][0] = 23), relocation("table of another kind"));
    assert_eq!(error_of(|sample| sample.dynamic[1][1] = 47), ImageError::Truncated("relocations"));
    assert_eq!(error_of(|sample| sample.dynamic[0][1] = u64::MAX), ImageError::Truncated("relocations"));
    assert_eq!(error_of(|sample| sample.dynamic[1][1] = u64::MAX), ImageError::Truncated("relocations"));
}

/// The sample with a packed table of these entries.
fn packed(entries: &[u64]) -> Vec<u8> {
    let mut sample = Sample { packed: entries.to_vec(), ..Sample::default() };
    sample.dynamic[4][1] = entries.len() as u64 * 8;
    sample.build()
}

#[test]
fn image_has_either_table_or_both() {
    let found = |unused: &[usize]| {
        let mut sample = Sample::default();
        // The tag of debugging information, which has no meaning here.
        unused.iter().for_each(|&entry| sample.dynamic[entry][0] = abi::DT_DEBUG.cast_unsigned());
        let file = sample.build();
        relocations(&check(&file).unwrap())
    };
    assert_eq!(found(&[3, 4, 5]), WITH_ADDENDS);
    assert_eq!(found(&[0, 1, 2]), PACKED);
    assert_eq!(found(&[0, 1, 2, 3, 4, 5]), []);
}

#[test]
fn bitmaps_stand_for_the_words_behind_those_before_them() {
    let offsets = |entries: &[u64]| {
        let file = packed(entries);
        let all = relocations(&check(&file).unwrap()).into_iter().map(|(offset, _)| offset);
        all.take_while(|offset| *offset != 0x2300).collect::<Vec<_>>()
    };
    assert_eq!(offsets(&[]), []);
    assert_eq!(offsets(&[0x2500, 1, 1, 0x3000]), [0x2500, 0x3000]);
    assert_eq!(offsets(&[0x2500, 0b11, 0b101]), [0x2500, 0x2508, 0x2508 + 63 * 8 + 8]);
    let words: Vec<_> = (0x2500..=0x2500 + 63 * 8).step_by(8).collect();
    assert_eq!(offsets(&[0x2500, u64::MAX]), words);
    assert_eq!(offsets(&[0x2502, 0b11]), [0x2502, 0x250a], "any even address");
}

#[test]
fn bitmap_may_reach_from_a_segment_into_the_next() {
    let relocated = |entries: &[u64]| {
        let mut sample = Sample { packed: entries.to_vec(), relocations: Vec::new(), ..Sample::default() };
        (sample.dynamic[1][1], sample.dynamic[4][1]) = (0, entries.len() as u64 * 8);
        (sample.segments[2].filesz, sample.segments[2].memsz) = (0x1000, 0x1000);
        let second = ProgramHeader {
            offset: 0x3000,
            vaddr: 0x3000,
            filesz: 0x800,
            memsz: 0x800,
            ..sample.segments[2]
        };
        sample.segments[TLS] = second;
        sample.addends = Vec::from([[0x2ff8, 0x1011], [0x3000, 0x2001]]);
        let file = sample.build();
        check(&file).map(|image| relocations(&image))
    };
    assert_eq!(relocated(&[0x2ff8, 0b11]), Ok(Vec::from([(0x2ff8, 0x1011), (0x3000, 0x2001)])));
    assert!(relocated(&[0x2ffc]).is_err(), "no word is in both");
}

#[test]
fn packed_relocations_must_be_in_writable_initial_contents() {
    let relocation = |text| ImageError::Relocation(text);
    let error = |entries: &[u64]| check(&packed(entries)).map(|_| ()).unwrap_err();
    for bitmap in [1, 3, u64::MAX] {
        assert_eq!(error(&[bitmap]), relocation("bitmap without an address"));
    }
    // The headers, the code, around the data, uninitialised data, behind the image, and around the end of
    // addresses.
    for offset in [0, 0x1010, 0x1ffe, 0x37fa, 0x3800, 0x5ff8, 0x6000, 1 << 40, u64::MAX - 9, u64::MAX - 1] {
        assert_eq!(error(&[0x2400, offset]), relocation("outside the writable data"), "{offset:#x}");
    }
    for bitmap in [0b11, 1 << 63 | 1, u64::MAX] {
        assert_eq!(error(&[0x37f8, bitmap]), relocation("outside the writable data"), "{bitmap:#x}");
    }
    assert_eq!(error(&[0x3600, 1, 0b11]), relocation("outside the writable data"));
    for entries in [[0x2400, 0x2400, 1], [0x2408, 0x2400, 1], [0x2400, 0b101, 0x2410]] {
        assert_eq!(error(&entries), relocation("out of order"), "{entries:x?}");
    }
    assert_eq!(error_of(|sample| sample.dynamic[5][1] = 24), relocation("entry size"));
    for (entry, value) in [(4, 23), (4, u64::MAX), (4, u64::MAX - 7), (3, u64::MAX), (3, 0xff0)] {
        let error = error_of(|sample| sample.dynamic[entry][1] = value);
        assert_eq!(error, ImageError::Truncated("relocations"), "{entry} {value:#x}");
    }
}

#[test]
fn file_truncated_at_any_byte_is_rejected() {
    let file = Sample::default().build();
    // Miri takes minutes for all of them.
    let step = if cfg!(miri) { 397 } else { 1 };
    for length in (0..file.len()).step_by(step) {
        assert!(check(&file[..length]).is_err(), "{length} bytes of {} passed", file.len());
    }
}

/// Calls all methods of an image that passes.
fn use_all(bytes: &[u8]) {
    if let Ok(image) = check(bytes) {
        assert!(image.segments().all(|segment| segment.start + segment.size <= image.size));
        assert!(relocations(&image).iter().all(|(offset, _)| offset + 8 <= image.size));
        let _: Option<(u64, u64)> = image.read_only_after_relocation();
        let _: Option<SymbolTable<'_>> = image.symbols();
        assert!(image.tls().is_none_or(|tls| tls.start + tls.file_size <= image.size));
    }
}

/// Packs ascending offsets, all a multiple of eight from each other, as a linker does.
fn pack(offsets: &[u64]) -> Vec<u64> {
    let mut entries = Vec::new();
    let mut rest = offsets.iter().copied().peekable();
    while let Some(first) = rest.next() {
        entries.push(first);
        let mut start = first + 8;
        while rest.peek().is_some_and(|&next| next - start < 63 * 8) {
            let mut bitmap = 1;
            while let Some(next) = rest.next_if(|&next| next - start < 63 * 8) {
                bitmap |= 2 << ((next - start) / 8);
            }
            entries.push(bitmap);
            start += 63 * 8;
        }
    }
    entries
}

proptest! {
    #[test]
    fn packed_words_are_relocated(words in btree_set(0..0x1800_u64 / 8 - 1, 0..200), odd in 0..4_u64) {
        let offsets: Vec<_> = words.into_iter().map(|word| 0x2000 + word * 8 + odd * 2).collect();
        let entries = pack(&offsets);
        // The table must fit in front of the page's end, and not relocate the dynamic section.
        if entries.len() * 8 <= 0x400 {
            let mut sample = Sample { packed: entries, relocations: Vec::new(), ..Sample::default() };
            (sample.dynamic[1][1], sample.dynamic[4][1]) = (0, sample.packed.len() as u64 * 8);
            let file = sample.build();
            let found = relocations(&check(&file).unwrap());
            let addend = |offset| word(&file, usize::try_from(offset).unwrap());
            let expected: Vec<_> = offsets.into_iter().map(|offset| (offset, addend(offset))).collect();
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn check_accepts_any_packed_table_without_panic(entries in vec(0x2000..0x3900_u64, 1..40), bitmaps in vec(any::<u64>(), 0..9)) {
        let entries: Vec<_> = entries.into_iter().chain(bitmaps).collect();
        use_all(&packed(&entries));
    }

    #[test]
    fn check_accepts_any_bytes_without_panic(bytes in vec(any::<u8>(), 0..if cfg!(miri) { 300 } else { 2000 })) {
        use_all(&bytes);
        let mut file = Sample::default().build();
        let length = bytes.len().min(file.len());
        file[64..length.max(64)].copy_from_slice(&bytes[64.min(length)..length]);
        use_all(&file);
    }

    #[test]
    fn check_accepts_any_corruption_without_panic(damage in vec((0..0x3900_usize, any::<u8>()), 1..8), low in any::<bool>()) {
        let mut file = Sample::default().build();
        for (offset, byte) in damage {
            file[if low { offset % 0x900 } else { offset }] = byte;
        }
        use_all(&file);
    }
}
