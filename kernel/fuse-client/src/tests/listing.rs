//! Tests of how directories are listed.

use alloc::vec::Vec;
use core::ops::ControlFlow;

use hermit_abi::{O_DIRECTORY, O_RDONLY};
use hermit_fs::FileType;
use hermit_fuse::dirent::{Dirent, write_record};
use hermit_fuse::flags::InitFlags;
use hermit_fuse::reply::{Attr, EntryOut, InitOut};
use hermit_fuse::request::ReadIn;
use hermit_fuse::{InHeader, Opcode};
use zerocopy::{FromBytes, IntoBytes};

use super::requests::{Messages, file, open, recorded, taken};
use super::system::run;

#[test]
fn types_that_the_server_does_not_know_are_those_of_the_attributes() {
    let (vfs, _, messages) = recorded(|header, body| match Opcode::from_number(header.opcode)? {
        Opcode::Init => {
            let flags = InitFlags::DO_READDIRPLUS.bits();
            Some(Ok(InitOut { major: 7, minor: 31, flags, ..InitOut::default() }.as_bytes().to_vec()))
        }
        opcode @ (Opcode::Readdir | Opcode::Readdirplus) => {
            let offset = ReadIn::read_from_prefix(body).ok()?.0.offset;
            Some(Ok(listing(offset, (opcode == Opcode::Readdirplus).then_some(0))))
        }
        _ => None,
    });
    let directory = open(&vfs, "/m", O_RDONLY | O_DIRECTORY);
    for round in 0..2 {
        run(directory.seek(0, hermit_fs::Whence::Start)).expect("a position");
        let mut found = Vec::new();
        run(directory.read_directory(|entry| {
            found.push((entry.name.to_vec(), entry.file_type));
            ControlFlow::Continue(())
        }))
        .expect("entries");
        let expected = [(b"a".to_vec(), FileType::Directory), (b"b".to_vec(), FileType::Symlink)];
        assert_eq!(found, expected);
        let forgotten: Vec<u64> = taken(&messages, Opcode::Forget);
        // The node of `..` belongs to another directory, to which the client has no reference.
        assert_eq!(forgotten, [1, 1], "{round}");
    }
    // Listings of other directories, and of this directory after it is opened again, at first ask only for
    // names.
    run(vfs.create_directory(b"/m/other", 0o755)).expect("a directory");
    drop(directory);
    for path in ["/m/other", "/m"] {
        messages.lock().clear();
        let directory = open(&vfs, path, O_RDONLY | O_DIRECTORY);
        run(directory.read_directory(|_| ControlFlow::Break(()))).expect("entries");
        assert_eq!(taken::<ReadIn>(&messages, Opcode::Readdir).len(), 1, "{path}");
    }
}

/// Returns the kinds of the messages so far, and removes the messages from the record.
fn opcodes(messages: &Messages) -> Vec<Opcode> {
    let messages = core::mem::take(&mut *messages.lock());
    let header = |message: &Vec<u8>| InHeader::read_from_prefix(message).expect("a header").0;
    messages.iter().map(|message| Opcode::from_number(header(message).opcode).expect("a kind")).collect()
}

#[test]
fn inodes_of_a_listing_are_kept_or_given_back() {
    let (vfs, _, messages) = recorded(|header, body| match Opcode::from_number(header.opcode)? {
        Opcode::Init => {
            let flags = InitFlags::DO_READDIRPLUS.bits();
            Some(Ok(InitOut { major: 7, minor: 31, flags, ..InitOut::default() }.as_bytes().to_vec()))
        }
        Opcode::Readdirplus => Some(Ok(listing(ReadIn::read_from_prefix(body).ok()?.0.offset, Some(1000)))),
        _ => None,
    });
    drop(file(&vfs));
    let metadata =
        |path: &[u8]| run(vfs.metadata(path, hermit_fs::Symlinks::Keep)).map(|found| found.attr.number);
    let directory = open(&vfs, "/m", O_RDONLY | O_DIRECTORY);
    let list = |result: ControlFlow<()>| {
        // A lookup of a file is the reason for listings to ask for inodes.
        assert!(metadata(b"/m/file").is_ok());
        run(directory.seek(0, hermit_fs::Whence::Start)).expect("a position");
        messages.lock().clear();
        run(vfs.read_directory(&directory, |_| result)).expect("entries");
        opcodes(&messages)
    };
    // The whole directory, in a reply with entries and one without.
    assert_eq!(list(ControlFlow::Continue(())), [Opcode::Readdirplus; 2]);
    assert_eq!((metadata(b"/m/a"), metadata(b"/m/b")), (Ok(0), Ok(0)));
    assert_eq!(opcodes(&messages), []);
    vfs.forget_names();
    assert_eq!(taken::<u64>(&messages, Opcode::Forget), [1, 1]);
    // Reads only the first entry. Its inode is kept; the reference to the inode of the other entry is
    // dropped.
    assert_eq!(list(ControlFlow::Break(())), [Opcode::Readdirplus, Opcode::Forget]);
    vfs.forget_names();
    assert_eq!(taken::<u64>(&messages, Opcode::Forget), [1]);
}

/// Entries of unknown type, from an offset on; with their inodes if these are valid for a number of seconds.
fn listing(offset: u64, valid: Option<u64>) -> Vec<u8> {
    let names: [(&[u8], u32); 3] = [(b"..", 0o04_0755), (b"a", 0o04_0755), (b"b", 0o12_0777)];
    let mut bytes = Vec::new();
    for ((name, mode), number) in names.into_iter().zip(1..).skip(usize::try_from(offset).unwrap()) {
        let attr = Attr { mode, ..Attr::default() };
        let seconds = valid.unwrap_or(0);
        let entry = EntryOut {
            nodeid: 90 + number,
            attr,
            entry_valid: seconds,
            attr_valid: seconds,
            ..EntryOut::default()
        };
        let dirent = Dirent { ino: number, off: number, ..Dirent::default() };
        let mut record = [0; 200];
        let size = write_record(&mut record, valid.map(|_| &entry), dirent, name).unwrap();
        bytes.extend_from_slice(&record[..size]);
    }
    bytes
}
