//! Entries of directories.

use std::collections::BTreeSet;
use std::fs::{self, File};

use hermit_fuse::request::{BatchForgetIn, ForgetOne};
use hermit_fuse::{InHeader, Opcode, ROOT_NODE};
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::client::{Client, O_RDONLY, O_RDWR, O_TRUNC};
use crate::devices::fuzzing::FilesClient;

/// All names of a directory, read with room for `size` bytes at once.
fn names(client: &mut Client, directory: (u64, u64), size: u32, is_plus: bool) -> Vec<String> {
    let (mut names, mut offset) = (Vec::new(), 0);
    loop {
        let (entries, next) = client.entries(directory, offset, size, is_plus).unwrap();
        if entries.is_empty() {
            return names;
        }
        names.extend(entries.into_iter().map(|(name, _)| name));
        offset = next;
    }
}

#[test]
fn every_entry_is_returned_once_whatever_the_room() {
    let mut client = Client::new();
    let expected: BTreeSet<String> = (0..30).map(|number| format!("file {number}")).collect();
    for name in &expected {
        File::create(client.host(name)).unwrap();
    }
    let directory = (ROOT_NODE, client.opendir(ROOT_NODE).unwrap());
    for (size, is_plus) in [(1 << 20, false), (200, false), (1 << 20, true), (400, true)] {
        let found = names(&mut client, directory, size, is_plus);
        assert_eq!(found.len(), 32);
        let found: BTreeSet<_> = found.into_iter().filter(|name| !name.starts_with('.')).collect();
        assert_eq!(found, expected);
    }
    assert_eq!(client.entries(directory, 0, 8, false), Err(Errno::INVAL));
    assert_eq!(client.entries((ROOT_NODE, directory.1 + 1), 0, 4096, false), Err(Errno::BADF));
}

/// On ext4, positions in a removed directory are invalid.
#[test]
fn list_of_a_removed_directory_ends() {
    let mut client = Client::new();
    fs::create_dir(client.host("directory")).unwrap();
    let node = client.lookup(ROOT_NODE, "directory").unwrap().nodeid;
    let directory = (node, client.opendir(node).unwrap());
    let (first, offset) = client.entries(directory, 0, 32, false).unwrap();
    assert_eq!(first.len(), 1);
    client.remove(Opcode::Rmdir, ROOT_NODE, "directory").unwrap();
    for (offset, is_plus) in [(offset, false), (offset, true), (0, false)] {
        assert_eq!(client.entries(directory, offset, 4096, is_plus), Ok((Vec::new(), offset)));
    }
}

#[test]
fn readdirplus_takes_references_as_lookup_does() {
    let mut client = Client::new();
    for name in ["a", "b"] {
        File::create(client.host(name)).unwrap();
    }
    let directory = (ROOT_NODE, client.opendir(ROOT_NODE).unwrap());
    let (entries, _) = client.entries(directory, 0, 4096, true).unwrap();
    for (name, node) in entries {
        if name.starts_with('.') {
            assert_eq!(node, 0);
            continue;
        }
        assert_eq!(client.lookup(ROOT_NODE, &name).unwrap().nodeid, node);
        client.forget(node, 1);
        client.getattr(node).unwrap();
        client.forget(node, 1);
        assert_eq!(client.getattr(node), Err(Errno::STALE));
    }
}

#[test]
fn nothing_is_made_without_a_handle_for_it() {
    let mut client = Client::new();
    fs::write(client.host("file"), "text").unwrap();
    let node = client.lookup(ROOT_NODE, "file").unwrap().nodeid;
    while client.open(node, O_RDONLY).is_ok() {}
    assert_eq!(client.open(node, O_RDWR | O_TRUNC), Err(Errno::NFILE));
    assert_eq!(fs::read(client.host("file")).unwrap(), b"text");
    assert_eq!(client.create(ROOT_NODE, "new", O_RDONLY, 0o644).map(drop), Err(Errno::NFILE));
    assert!(!client.host("new").exists());
}

#[test]
fn nodes_and_handles_are_bounded_and_returned() {
    let mut client = Client::new();
    for number in 0..100 {
        File::create(client.host(&number.to_string())).unwrap();
    }
    let mut nodes = Vec::new();
    let error = loop {
        match client.lookup(ROOT_NODE, &nodes.len().to_string()) {
            Ok(entry) => nodes.push(entry.nodeid),
            Err(error) => break error,
        }
    };
    assert_eq!((error, nodes.len()), (Errno::NFILE, FilesClient::MAX_DESCRIPTORS / 4 * 3));
    // The directory is not created, because the guest could not refer to it.
    assert_eq!(client.mkdir(ROOT_NODE, "new", 0o777), Err(Errno::NFILE));
    assert!(!client.host("new").exists());
    // Names without a node are still listed.
    let directory = (ROOT_NODE, client.opendir(ROOT_NODE).unwrap());
    let (entries, _) = client.entries(directory, 0, 1 << 20, true).unwrap();
    assert_eq!(entries.iter().filter(|(_, node)| *node == 0).count(), 102 - nodes.len());
    let mut handles = vec![directory.1];
    let error = loop {
        match client.open(nodes[0], O_RDONLY) {
            Ok(handle) => handles.push(handle),
            Err(error) => break error,
        }
    };
    assert_eq!((error, handles.len()), (Errno::NFILE, FilesClient::MAX_DESCRIPTORS / 4));
    for handle in handles {
        client.release(handle).unwrap();
        assert_eq!(client.release(handle), Err(Errno::BADF));
    }
    // Each node has a reference of the lookup, and perhaps one of the listing.
    let batch = BatchForgetIn { count: u32::try_from(nodes.len()).unwrap(), dummy: 0 };
    let ones: Vec<u8> =
        nodes.iter().flat_map(|&nodeid| ForgetOne { nodeid, nlookup: 2 }.as_bytes().to_vec()).collect();
    let len = u32::try_from(40 + 8 + ones.len()).unwrap();
    let header = InHeader { len, opcode: Opcode::BatchForget.number(), ..InHeader::default() };
    let request = [header.as_bytes(), batch.as_bytes(), &ones].concat();
    assert!(client.files.exchange(&request, 64).is_empty());
    assert!(nodes.iter().all(|&node| client.getattr(node) == Err(Errno::STALE)));
    client.lookup(ROOT_NODE, "99").unwrap();
}
