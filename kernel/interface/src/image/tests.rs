//! Each error of the image check, and arbitrary bytes.

use alloc::vec::Vec;

use elf::abi;
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::proptest;

use super::sample::{NOTE, Sample, TLS};
use super::{ImageError, SymbolTable, check};

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
    assert_eq!(image.relocations().collect::<Vec<_>>(), [(0x2300, 0x1010), (0x3008, 0x2000)]);
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
    assert_eq!(error_of(|sample| sample.dynamic[3][0] = 1), relocation("against a shared library"));
    assert_eq!(error_of(|sample| sample.dynamic[3][0] = 23), relocation("table of another kind"));
    assert_eq!(error_of(|sample| sample.dynamic[1][1] = 47), ImageError::Truncated("relocations"));
    assert_eq!(error_of(|sample| sample.dynamic[0][1] = u64::MAX), ImageError::Truncated("relocations"));
    assert_eq!(error_of(|sample| sample.dynamic[1][1] = u64::MAX), ImageError::Truncated("relocations"));
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
        assert!(image.relocations().all(|(offset, _)| offset + 8 <= image.size));
        let _: Option<(u64, u64)> = image.read_only_after_relocation();
        let _: Option<SymbolTable<'_>> = image.symbols();
        assert!(image.tls().is_none_or(|tls| tls.start + tls.file_size <= image.size));
    }
}

proptest! {
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
