//! Servers whose replies are invalid.

use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ops::ControlFlow;

use hermit_abi::{O_CREAT, O_DIRECTORY, O_RDONLY, O_RDWR};
use hermit_fs::{OpenedPath, RenameFlags, SetAttr, Symlinks};
use hermit_fuse::reply::{Attr, EntryOut, InitOut};
use hermit_fuse::{InHeader, Opcode, OutHeader};
use hermit_interface::Errno;
use hermit_io::ReadBuffer;
use proptest::collection::vec;
use proptest::prelude::*;
use zerocopy::{FromBytes, IntoBytes};

use super::server::{Files, reply, serve};
use super::system::{mounted, ramfs, run};
use super::transport::ModelTransport;
use crate::{ConnectError, FuseClient, Transport as _};

fn header(message: &[u8]) -> InHeader {
    InHeader::read_from_prefix(message).expect("a header").0
}

/// A client of a server that uses `answer` to reply to one kind of request, and replies correctly to all
/// others.
fn client_of(
    opcode: Opcode,
    mut answer: impl FnMut(u64) -> Vec<u8> + Send + 'static,
) -> (FuseClient<ModelTransport>, ModelTransport) {
    let mut serve = serve(&Files::new(ramfs()));
    let transport = ModelTransport::new(move |message| {
        let header = header(message);
        if header.opcode == opcode.number() { Some(answer(header.unique)) } else { serve(message) }
    });
    (run(FuseClient::connect(transport.clone())).expect("a connection"), transport)
}

/// An entry of a regular file.
fn file(nodeid: u64) -> EntryOut {
    EntryOut { nodeid, attr: Attr { mode: 0o10_0644, ..Attr::default() }, ..EntryOut::default() }
}

#[test]
fn invalid_reply_stops_the_server() {
    fn header(len: u32, error: i32, unique: u64) -> Vec<u8> {
        OutHeader { len, error, unique }.as_bytes().to_vec()
    }
    let invalid: [fn(u64) -> Vec<u8>; 9] = [
        |_| Vec::new(),
        |unique| header(15, 0, unique)[..15].to_vec(),
        |unique| header(17, 0, unique),
        |unique| header(16, -2, unique + 1),
        |unique| header(16, -512, unique),
        |unique| header(16, 2, unique),
        |unique| reply(unique, Ok(Vec::new())),
        // The root, and a type that does not exist.
        |unique| reply(unique, Ok(file(1).as_bytes().to_vec())),
        |unique| reply(unique, Ok(EntryOut { nodeid: 5, ..EntryOut::default() }.as_bytes().to_vec())),
    ];
    for (index, answer) in invalid.into_iter().enumerate() {
        let (client, transport) = client_of(Opcode::Lookup, answer);
        let vfs = mounted(Arc::new(client));
        assert_eq!(run(vfs.metadata(b"/m/a", Symlinks::Follow)).map(drop), Err(Errno::EIO), "{index}");
        assert!(transport.is_stopped(), "{index}");
        assert_eq!(run(vfs.usage(b"/m")).map(drop), Err(Errno::EIO), "{index}");
    }
}

#[test]
fn bits_without_meaning_in_a_mode_are_ignored() {
    let attr = Attr { mode: 0o10_0644 | 1 << 16 | 1 << 31, ..Attr::default() };
    let entry = EntryOut { attr, attr_valid: u64::MAX, ..file(5) };
    let (client, _) = client_of(Opcode::Lookup, move |unique| reply(unique, Ok(entry.as_bytes().to_vec())));
    let vfs = mounted(Arc::new(client));
    let found = run(vfs.metadata(b"/m/a", Symlinks::Keep)).expect("a file");
    assert_eq!(found.attr.mode, 0o10_0644);
}

#[test]
fn error_of_the_server_is_that_of_the_call() {
    let (client, transport) = client_of(Opcode::Lookup, |unique| reply(unique, Err(13)));
    let vfs = mounted(Arc::new(client));
    assert_eq!(run(vfs.metadata(b"/m/a", Symlinks::Follow)).map(drop), Err(Errno::EACCES));
    assert!(!transport.is_stopped());
}

#[test]
fn invalid_handshake_is_an_error() {
    let connect = |init: InitOut| {
        let transport = ModelTransport::new(move |message| {
            Some(reply(header(message).unique, Ok(init.as_bytes().to_vec())))
        });
        let result = run(FuseClient::connect(transport.clone())).map(drop);
        assert_eq!(transport.is_stopped(), result.is_err());
        result
    };
    let valid = InitOut { major: 7, minor: 31, ..InitOut::default() };
    assert_eq!(connect(valid), Ok(()));
    assert_eq!(connect(InitOut { minor: 22, ..valid }), Err(ConnectError::Version(7, 22)));
    assert_eq!(connect(InitOut { major: 8, ..valid }), Err(ConnectError::Version(8, 31)));
    let refusing = ModelTransport::new(|message| Some(reply(header(message).unique, Err(1))));
    assert_eq!(run(FuseClient::connect(refusing)).map(drop), Err(ConnectError::Refused(Errno::EPERM)));
}

#[test]
fn handshake_without_memory_can_be_repeated() {
    let mut is_first = true;
    let transport = ModelTransport::new(move |message| {
        let result = if core::mem::take(&mut is_first) {
            Err(Errno::ENOMEM.number())
        } else {
            Ok(InitOut { major: 7, minor: 31, ..InitOut::default() }.as_bytes().to_vec())
        };
        Some(reply(header(message).unique, result))
    });
    let connect = || run(FuseClient::connect(transport.clone())).map(drop);
    assert_eq!(connect(), Err(ConnectError::Refused(Errno::ENOMEM)));
    assert!(!transport.is_stopped());
    assert_eq!(connect(), Ok(()));
}

#[test]
fn invalid_directory_entries_stop_the_server() {
    let record = |name: &[u8], namelen: u32, off: u64| {
        let mut bytes = vec![0; 64];
        bytes[8..16].copy_from_slice(&off.to_ne_bytes());
        bytes[16..20].copy_from_slice(&namelen.to_ne_bytes());
        bytes[24..24 + name.len()].copy_from_slice(name);
        bytes.truncate((24 + name.len()).next_multiple_of(8));
        bytes
    };
    let invalid = [
        record(b"a/b", 3, 5),
        record(b"a\0b", 3, 5),
        record(b"", 0, 5),
        record(b"abc", 300, 5),
        record(b"abc", 3, 1 << 63),
        // The position of the request.
        record(b"abc", 3, 0),
    ];
    for bytes in invalid {
        let reply_bytes = bytes.clone();
        let (client, transport) =
            client_of(Opcode::Readdir, move |unique| reply(unique, Ok(reply_bytes.clone())));
        let vfs = mounted(Arc::new(client));
        let Ok(OpenedPath::File(directory)) = run(vfs.open(b"/m", O_DIRECTORY, 0)) else {
            panic!("no directory")
        };
        let result = run(directory.read_directory(|_| ControlFlow::Continue(())));
        assert_eq!((result, transport.is_stopped()), (Err(Errno::EIO), true), "{bytes:?}");
    }
}

#[test]
fn names_that_no_call_accepts_are_not_listed() {
    let long = [b'x'; 256];
    let names: [&[u8]; 2] = [&long, b"short"];
    let records = names.into_iter().zip(1_u64..).flat_map(|(name, off)| {
        let length = u32::try_from(name.len()).unwrap();
        let head =
            [&1_u64.to_ne_bytes()[..], &off.to_ne_bytes(), &length.to_ne_bytes(), &8_u32.to_ne_bytes()];
        let mut bytes = [&head.concat(), name].concat();
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    });
    let mut replies = [records.collect::<Vec<u8>>(), Vec::new()].into_iter();
    let (client, transport) =
        client_of(Opcode::Readdir, move |unique| reply(unique, Ok(replies.next().unwrap_or_default())));
    let vfs = mounted(Arc::new(client));
    let Ok(OpenedPath::File(directory)) = run(vfs.open(b"/m", O_DIRECTORY, 0)) else {
        panic!("no directory")
    };
    let mut found = Vec::new();
    let result = run(directory.read_directory(|entry| {
        found.push(entry.name.to_vec());
        ControlFlow::Continue(())
    }));
    assert_eq!((result, found, transport.is_stopped()), (Ok(()), vec![b"short".to_vec()], false));
}

#[test]
fn write_of_more_than_was_sent_stops_the_server() {
    let (client, transport) =
        client_of(Opcode::Write, |unique| reply(unique, Ok(vec![4, 0, 0, 0, 0, 0, 0, 0])));
    let vfs = mounted(Arc::new(client));
    let Ok(OpenedPath::File(file)) = run(vfs.open(b"/m/a", O_RDWR | O_CREAT, 0o600)) else {
        panic!("no file")
    };
    assert_eq!(run(file.write(b"four")), Ok(4));
    assert_eq!((run(file.write_at(0, b"one")), transport.is_stopped()), (Err(Errno::EIO), true));
    // The same applies to collected writes.
    let (client, transport) =
        client_of(Opcode::Write, |unique| reply(unique, Ok(vec![4, 0, 0, 0, 0, 0, 0, 0])));
    let vfs = mounted(Arc::new(client));
    let Ok(OpenedPath::File(file)) = run(vfs.open(b"/m/a", O_RDWR | O_CREAT, 0o600)) else {
        panic!("no file")
    };
    assert_eq!((run(file.write(b"four")), run(file.write(b"one"))), (Ok(4), Ok(3)));
    assert_eq!((run(file.flush()), transport.is_stopped()), (Err(Errno::EIO), true));
}

/// A reply: random bytes, often with a valid header or of the size of a structure.
#[derive(Clone, Debug)]
struct RandomReply {
    has_header: bool,
    error: i32,
    payload: Vec<u8>,
}

fn random_reply() -> impl Strategy<Value = RandomReply> {
    let payload = prop_oneof![
        Just(vec![0; 0]),
        vec(any::<u8>(), 0..300),
        (vec(any::<u8>(), 4..100), proptest::sample::select(vec![8, 16, 64, 80, 104, 128, 144]))
            .prop_map(|(bytes, size)| bytes.iter().copied().cycle().take(size).collect()),
        // A plausible entry, and an opening.
        (2..9_u64).prop_map(|node| file(node).as_bytes().to_vec()),
        (2..9_u64).prop_map(|node| [file(node).as_bytes(), &[7; 16]].concat()),
    ];
    let error = prop_oneof![3 => Just(0), 1 => -600..5];
    (proptest::bool::weighted(0.9), error, payload).prop_map(|(has_header, error, payload)| RandomReply {
        has_header,
        error,
        payload,
    })
}

proptest! {
    #[test]
    fn random_replies_end_each_call(replies in vec(random_reply(), 1..if cfg!(miri) { 10 } else { 30 })) {
        let mut replies = replies.into_iter().cycle();
        let mut is_first = true;
        let transport = ModelTransport::new(move |message| {
            let header = header(message);
            if core::mem::take(&mut is_first) {
                let init = InitOut { major: 7, minor: 31, ..InitOut::default() };
                return Some(reply(header.unique, Ok(init.as_bytes().to_vec())));
            }
            let RandomReply { has_header, error, payload } = replies.next()?;
            if Opcode::from_number(header.opcode).is_some_and(Opcode::has_no_reply) {
                return None;
            }
            let is_error = error != 0;
            let random = if is_error { Err(-error) } else { Ok(payload.clone()) };
            Some(if has_header { reply(header.unique, random) } else { payload })
        });
        let vfs = mounted(Arc::new(run(FuseClient::connect(transport)).unwrap()));
        for _ in 0..3 {
            let _: Result<_, Errno> = run(vfs.metadata(b"/m/a/b", Symlinks::Keep));
            let _: Result<_, Errno> = run(vfs.real_path(b"/m/a/../b"));
            let _: Result<_, Errno> = run(vfs.read_link(b"/m/a"));
            let _: Result<_, Errno> = run(vfs.create_directory(b"/m/c", 0o700));
            let _: Result<_, Errno> = run(vfs.create_symlink(b"x", b"/m/d"));
            let _: Result<_, Errno> = run(vfs.create_link(b"/m/a", b"/m/e"));
            let _: Result<_, Errno> = run(vfs.rename(b"/m/a", b"/m/f", RenameFlags::empty()));
            let _: Result<_, Errno> = run(vfs.remove_file(b"/m/a"));
            let _: Result<_, Errno> = run(vfs.remove_directory(b"/m/a"));
            let _: Result<_, Errno> = run(vfs.set_attributes(b"/m/a", Symlinks::Follow, &SetAttr::default()));
            let _: Result<_, Errno> = run(vfs.usage(b"/m"));
            let _: Result<_, Errno> = run(vfs.change_directory(b"/m/a")).and_then(|()| run(vfs.current_path()).map(drop));
            for flags in [O_RDWR | O_CREAT, O_RDONLY, O_DIRECTORY] {
                let Ok(OpenedPath::File(file)) = run(vfs.open(b"/m/g", flags, 0o600)) else { continue };
                let mut memory = [MaybeUninit::uninit(); 200];
                let _: Result<_, Errno> = run(file.read(&mut ReadBuffer::new(&mut memory)));
                let _: Result<_, Errno> = run(file.write(b"bytes"));
                let _: Result<_, Errno> = run(file.sync(false));
                let mut left = 100;
                let _: Result<_, Errno> = run(file.read_directory(|_| {
                    left -= 1;
                    if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
                }));
            }
        }
    }
}
