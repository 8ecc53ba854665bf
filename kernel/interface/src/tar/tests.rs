//! Tests of the reader, with archives that the crate `tar` writes and reads.

extern crate std;

use alloc::string::String;
use alloc::vec::Vec;
use alloc::{format, vec};
use std::io::Read;

use ::tar::{Archive, Builder, EntryType, Header};
use proptest::prelude::*;

use super::{Content, Entries, Entry, TarError, TarReason, Timestamp, check};

fn header(entry_type: EntryType, size: usize) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(entry_type);
    header.set_size(size as u64);
    header.set_mode(0o640);
    header.set_mtime(1_700_000_000);
    header
}

fn add_file(builder: &mut Builder<Vec<u8>>, path: &str, contents: &[u8]) {
    builder.append_data(&mut header(EntryType::Regular, contents.len()), path, contents).unwrap();
}

/// An archive that a function fills.
fn archive(fill: impl FnOnce(&mut Builder<Vec<u8>>)) -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    fill(&mut builder);
    builder.into_inner().unwrap()
}

fn entries(archive: &[u8]) -> Result<Vec<Entry<'_>>, TarError> {
    Entries::new(archive).collect()
}

fn path(entry: &Entry<'_>) -> String {
    let names: Vec<_> = entry.path.names().map(String::from_utf8_lossy).collect();
    names.join("/")
}

fn reason(archive: &[u8]) -> TarReason {
    check(archive).unwrap_err().reason
}

#[test]
fn entries_of_each_type_are_read_in_place() {
    let long = "directory/".repeat(20) + "name";
    let bytes = archive(|builder| {
        builder.append_data(&mut header(EntryType::Directory, 0), "./a/", &b""[..]).unwrap();
        add_file(builder, "a/file", b"text");
        add_file(builder, &long, &[7; 513]);
        builder.append_link(&mut header(EntryType::Symlink, 0), "a/soft", &long).unwrap();
        builder.append_link(&mut header(EntryType::Link, 0), "hard", "a/file").unwrap();
        builder.append_data(&mut header(EntryType::Fifo, 0), "fifo", &b""[..]).unwrap();
    });
    let found = entries(&bytes).unwrap();
    let paths: Vec<_> = found.iter().map(path).collect();
    assert_eq!(paths, ["a", "a/file", &long, "a/soft", "hard", "fifo"]);
    let [directory, file, large, soft, hard, fifo] = &found[..] else { panic!("{found:?}") };
    assert_eq!((directory.content, file.content), (Content::Directory, Content::File(b"text")));
    assert_eq!((large.content, soft.content), (Content::File(&[7; 513]), Content::Symlink(long.as_bytes())));
    let Content::HardLink(target) = hard.content else { panic!("{hard:?}") };
    assert_eq!(
        (target.names().collect::<Vec<_>>(), fifo.content),
        (vec![&b"a"[..], b"file"], Content::Special)
    );
    let Content::File(contents) = file.content else { panic!("{file:?}") };
    assert!(bytes.as_ptr_range().contains(&contents.as_ptr()), "the contents are copied");
    let modified = Timestamp { seconds: 1_700_000_000, nanoseconds: 0 };
    assert_eq!((file.permissions, file.modified), (0o640, modified));
}

#[test]
fn pax_records_replace_fields_of_the_header() {
    let bytes = archive(|builder| {
        let records = [("path", &b"new/name"[..]), ("mtime", b"5.25"), ("comment", b"a=b\nc")];
        builder.append_pax_extensions(records).unwrap();
        add_file(builder, "old", b"1");
        builder.append_pax_extensions([("linkpath", &b"target"[..])]).unwrap();
        builder.append_link(&mut header(EntryType::Symlink, 0), "link", "other").unwrap();
        add_file(builder, "old", b"2");
    });
    let found = entries(&bytes).unwrap();
    let paths: Vec<_> = found.iter().map(path).collect();
    assert_eq!(paths, ["new/name", "link", "old"]);
    assert_eq!(found[0].modified, Timestamp { seconds: 5, nanoseconds: 250_000_000 });
    assert_eq!((found[1].content, found[2].modified.seconds), (Content::Symlink(b"target"), 1_700_000_000));
}

#[test]
fn prefix_of_ustar_precedes_the_name() {
    let mut header = Header::new_ustar();
    let long = format!("{}/{}", "p".repeat(90), "n".repeat(90));
    header.set_path(&long).unwrap();
    header.set_size(0);
    header.set_cksum();
    let bytes = [header.as_bytes(), &[0; 512][..]].concat();
    assert_eq!(path(&entries(&bytes).unwrap()[0]), long);
}

/// The archive of one entry whose header a function changes.
fn changed(change: impl FnOnce(&mut Header)) -> Vec<u8> {
    let mut header = header(EntryType::Regular, 0);
    header.set_path("name").unwrap();
    change(&mut header);
    header.set_cksum();
    [header.as_bytes(), &[0; 512][..]].concat()
}

#[test]
fn invalid_entries_are_rejected_with_the_reason() {
    let named = |name: &[u8]| changed(|header| header.as_old_mut().name[..name.len()].copy_from_slice(name));
    let typed = |flag: u8| changed(|header| header.set_entry_type(EntryType::new(flag)));
    assert_eq!(check(&named(b"name")), Ok(()));
    for name in [&b"../a\0"[..], b"a/../b\0", b"..\0"] {
        assert_eq!(reason(&named(name)), TarReason::Path);
    }
    assert_eq!(reason(&typed(b'S')), TarReason::Sparse);
    assert_eq!(reason(&typed(b'Z')), TarReason::Type(b'Z'));
    assert_eq!(
        reason(&changed(|header| header.as_old_mut().mtime = *b"tomorrow\0\0\0\0")),
        TarReason::Number
    );
    assert_eq!(reason(&changed(|header| header.set_size(1 << 40))), TarReason::Truncated);
    assert_eq!(reason(b"\x1f\x8b\x08"), TarReason::Compressed);
    assert_eq!(reason(&[b'x'; 1024]), TarReason::Checksum);
    assert_eq!(reason(b""), TarReason::Truncated);
    let pax = |records: &[u8]| {
        let mut header = header(EntryType::XHeader, records.len());
        header.set_cksum();
        let mut data = records.to_vec();
        data.resize(512, 0);
        [header.as_bytes(), &data[..], &named(b"name")].concat()
    };
    assert_eq!(check(&pax(b"9 path=a\n")), Ok(()));
    assert_eq!(reason(&pax(b"99 path=a\n")), TarReason::Record);
    assert_eq!(reason(&pax(b"22 GNU.sparse.major=1\n")), TarReason::Sparse);
    assert_eq!(reason(&pax(&[b"272 path=", &[b'n'; 256][..], b"\n"].concat())), TarReason::Record);
    assert_eq!(reason(&pax(&[b"266 path=", &[b'n'; 256][..], b"\n"].concat())), TarReason::Path);
    let error = TarError { offset: 512, reason: TarReason::Type(b'Z') };
    assert_eq!(format!("{error}"), "entries of type `Z` are not supported (at byte 512)");
}

#[test]
fn archive_truncated_at_any_byte_is_rejected() {
    let bytes = archive(|builder| {
        add_file(builder, &"long/".repeat(30), b"");
        add_file(builder, "file", &[1; 700]);
    });
    let end = bytes.len() - 512;
    for length in (0..end).step_by(if cfg!(miri) { 101 } else { 1 }) {
        assert_eq!(reason(&bytes[..length]), TarReason::Truncated, "{length}");
    }
    assert_eq!(check(&bytes[..end]), Ok(()));
}

/// Names that are short, longer than a field of the header, and longer than its prefix.
fn names() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-c]{1,3}(/[a-c]{1,3}){0,3}", 1 => "[a-z]{90,120}", 1 => "([a-z]{40}/){4,8}[a-z]{1,9}"]
}

proptest! {
    #[test]
    fn reader_agrees_with_the_crate_tar(
        files in prop::collection::vec((names(), prop::collection::vec(any::<u8>(), 0..if cfg!(miri) { 100 } else { 1200 }), any::<u32>()), 0..if cfg!(miri) { 4 } else { 8 }),
    ) {
        let bytes = archive(|builder| {
            for (name, contents, mtime) in &files {
                let mut header = header(EntryType::Regular, contents.len());
                header.set_mtime((*mtime).into());
                builder.append_data(&mut header, name, &contents[..]).unwrap();
            }
        });
        let found = entries(&bytes).unwrap();
        let mut archive = Archive::new(&bytes[..]);
        for (mut expected, found) in archive.entries().unwrap().map(Result::unwrap).zip(&found) {
            let mut contents = Vec::new();
            expected.read_to_end(&mut contents).unwrap();
            prop_assert_eq!(expected.path_bytes().into_owned(), path(found).into_bytes());
            prop_assert_eq!(found.content, Content::File(&contents));
            prop_assert_eq!(expected.header().mtime().unwrap().cast_signed(), found.modified.seconds);
        }
        prop_assert_eq!(found.len(), files.len());
    }

    #[test]
    fn reader_accepts_any_bytes(mut bytes in prop::collection::vec(any::<u8>(), 0..if cfg!(miri) { 600 } else { 3000 })) {
        let _: Result<(), TarError> = check(&bytes);
        // With a header whose checksum is right, the rest is its data.
        let mut header = header(EntryType::XHeader, bytes.len());
        header.set_cksum();
        bytes.resize(bytes.len().next_multiple_of(512), 0);
        let _: Result<(), TarError> = check(&[header.as_bytes(), &bytes[..]].concat());
    }
}
