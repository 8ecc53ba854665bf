//! Records are written and read back; what a hostile server sends is refused.

extern crate alloc;

use alloc::vec;
use alloc::vec::Vec;

use proptest::collection::vec as vec_of;
use proptest::prelude::{any, proptest};
use zerocopy::IntoBytes;

use super::{Dirent, Records, record_size, write_record};
use crate::reply::EntryOut;

const ENTRY: EntryOut = EntryOut {
    nodeid: 7,
    generation: 1,
    entry_valid: 2,
    attr_valid: 3,
    entry_valid_nsec: 4,
    attr_valid_nsec: 5,
    attr: crate::reply::Attr {
        ino: 9,
        size: 10,
        blocks: 0,
        atime: 0,
        mtime: 0,
        ctime: 0,
        atimensec: 0,
        mtimensec: 0,
        ctimensec: 0,
        mode: 0o100_644,
        nlink: 1,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    },
};

fn written(names: &[&[u8]], is_plus: bool) -> Vec<u8> {
    let mut bytes = vec![0xff; 4096];
    let mut used = 0;
    for (number, name) in (1..).zip(names) {
        let dirent = Dirent { ino: number, off: number, namelen: 0, kind: 8 };
        used += write_record(&mut bytes[used..], is_plus.then_some(&ENTRY), dirent, name).unwrap();
    }
    bytes.truncate(used);
    bytes
}

#[test]
fn records_are_read_as_they_were_written() {
    let names: [&[u8]; 4] = [b".", b"seventh", b"eight888", &[b'x'; 255]];
    for is_plus in [false, true] {
        let bytes = written(&names, is_plus);
        let mut records = Records::new(&bytes, is_plus);
        for (number, name) in (1..).zip(names) {
            let record = records.next().unwrap();
            assert_eq!((record.name, record.dirent.off, record.dirent.ino), (name, number, number));
            assert_eq!(record.entry, is_plus.then_some(ENTRY));
        }
        assert_eq!((records.next(), records.rest().len()), (None, 0));
    }
}

#[test]
fn record_has_the_layout_of_linux() {
    let bytes = written(&[b"abc"], false);
    let expected =
        [&1_u64.to_ne_bytes()[..], &1_u64.to_ne_bytes(), &3_u32.to_ne_bytes(), &8_u32.to_ne_bytes(), b"abc"];
    assert_eq!(bytes[..27], expected.concat());
    assert_eq!(bytes[27..], [0; 5]);
    assert_eq!((record_size(3, false), record_size(3, true)), (32, 160));
}

#[test]
fn record_that_does_not_fit_is_not_written() {
    let mut buffer = [7; 31];
    assert_eq!(write_record(&mut buffer, None, Dirent::default(), b"abc"), None);
    assert_eq!(buffer, [7; 31]);
}

#[test]
fn truncated_and_invalid_records_end_the_iteration() {
    let bytes = written(&[b"first", b"second"], false);
    let second = record_size(5, false);
    for length in second..second + 24 + 6 {
        assert_eq!(Records::new(&bytes[..length], false).count(), 1, "of {length} bytes");
    }
    for name in [&b""[..], b"a/b", b"a\0b"] {
        assert_eq!(Records::new(&written(&[name], true), true).next(), None, "{name:?}");
    }
    let long = Dirent { namelen: u32::MAX, ..Dirent::default() };
    assert_eq!(Records::new(long.as_bytes(), false).next(), None);
}

proptest! {
    /// Every record is made of the bytes that it consumes, so that the iteration ends.
    #[test]
    fn any_bytes_are_parsed_to_an_end(bytes in vec_of(any::<u8>(), 0..600), is_plus: bool) {
        let records = Records::new(&bytes, is_plus);
        let least = record_size(1, is_plus) - 7;
        assert!(records.count() * least <= bytes.len());
    }
}
