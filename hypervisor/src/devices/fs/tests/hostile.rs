//! Requests that a conforming driver never sends.

use std::fs;
use std::os::unix::net::UnixListener;

use hermit_fuse::request::{ReadIn, WriteIn};
use hermit_fuse::{InHeader, Opcode, OutHeader, ROOT_NODE};
use hermit_options::mount::CachePolicy;
use rustix::fs::{CWD, Mode, mkfifoat};
use rustix::io::Errno;
use zerocopy::{FromBytes, IntoBytes};

use super::client::{Client, O_RDONLY, O_RDWR, O_WRONLY, nul};
use crate::devices::fuzzing::FilesClient;
use crate::devices::virtio::test_utils::assert_rejects_malformed_queues;

#[test]
fn malformed_queues_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    for queue in [0, 1] {
        assert_rejects_malformed_queues(queue, || {
            FilesClient::device(folder.path(), false, CachePolicy::Auto).unwrap()
        });
    }
}

#[test]
fn names_that_are_no_component_are_refused() {
    let mut client = Client::new();
    let long = "x".repeat(1025);
    let not_a_name = ["", ".", "..", "/", "/etc", "a/b", "../x", "a/../..", "a/"];
    for (name, error) in
        not_a_name.map(|name| (name, Errno::INVAL)).into_iter().chain([(&*long, Errno::NAMETOOLONG)])
    {
        assert_eq!(client.lookup(ROOT_NODE, name), Err(error), "{name}");
        assert_eq!(client.mkdir(ROOT_NODE, name, 0o777), Err(error), "{name}");
        assert_eq!(client.create(ROOT_NODE, name, O_RDWR, 0o666).map(drop), Err(error), "{name}");
        assert_eq!(client.symlink(ROOT_NODE, name, "x"), Err(error), "{name}");
        assert_eq!(client.link(ROOT_NODE, ROOT_NODE, name), Err(error), "{name}");
        assert_eq!(client.rename((ROOT_NODE, name), (ROOT_NODE, "x"), 0), Err(error), "{name}");
        assert_eq!(client.rename((ROOT_NODE, "x"), (ROOT_NODE, name), 0), Err(error), "{name}");
        for opcode in [Opcode::Unlink, Opcode::Rmdir] {
            assert_eq!(client.remove(opcode, ROOT_NODE, name), Err(error), "{name}");
        }
    }
    let text = nul("a\0b");
    assert_eq!(client.request(Opcode::Lookup.number(), ROOT_NODE, &text), Err(Errno::INVAL));
    assert_eq!(client.request(Opcode::Lookup.number(), ROOT_NODE, b"no NUL"), Err(Errno::INVAL));
    let many = [&[0; 16][..], b"a\0b\0c\0"].concat();
    assert_eq!(client.request(Opcode::Rename2.number(), ROOT_NODE, &many), Err(Errno::STALE));
    let target = "x".repeat(4096);
    assert_eq!(client.symlink(ROOT_NODE, "name", &target), Err(Errno::NAMETOOLONG));
    assert_eq!(client.lookup(ROOT_NODE, &"x".repeat(9000)), Err(Errno::NAMETOOLONG));
    assert_eq!(fs::read_dir(client.folder.path()).unwrap().count(), 0);
}

#[test]
fn nodes_and_handles_that_were_never_given_are_refused() {
    let mut client = Client::new();
    let (entry, fh) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    for node in [0, entry.nodeid + 1, entry.nodeid | 1 << 32, 1 << 63, u64::MAX] {
        assert_eq!(client.getattr(node), Err(Errno::STALE));
        assert_eq!(client.lookup(node, "x"), Err(Errno::STALE));
        assert_eq!(client.open(node, O_RDONLY), Err(Errno::STALE));
        assert_eq!(client.rename((ROOT_NODE, "file"), (node, "x"), 0), Err(Errno::STALE));
        assert_eq!(client.link(node, ROOT_NODE, "x"), Err(Errno::STALE));
    }
    let directory = client.opendir(ROOT_NODE).unwrap();
    for handle in [0, 1, fh + 9, fh | 1 << 40, u64::MAX] {
        assert_eq!(client.read(handle, 0, 1), Err(Errno::BADF));
        assert_eq!(client.write(handle, 0, b"x"), Err(Errno::BADF));
        assert_eq!(client.release(handle), Err(Errno::BADF));
    }
    assert_eq!(client.read(directory, 0, 1), Err(Errno::ISDIR));
    assert_eq!(client.entries((ROOT_NODE, fh), 0, 100, true), Err(Errno::BADF));
    assert_eq!(client.open(ROOT_NODE, O_RDONLY), Err(Errno::ISDIR));
    assert_eq!(client.opendir(entry.nodeid), Err(Errno::NOTDIR));
}

#[test]
fn fifos_sockets_and_devices_are_not_opened() {
    let mut client = Client::new();
    mkfifoat(CWD, client.host("fifo"), Mode::RWXU).unwrap();
    let _socket = UnixListener::bind(client.host("socket")).unwrap();
    for name in ["fifo", "socket"] {
        let node = client.walk(name);
        for flags in [O_RDONLY, O_WRONLY, O_RDWR] {
            assert_eq!(client.open(node, flags), Err(Errno::ACCESS));
            assert_eq!(client.create(ROOT_NODE, name, flags, 0o666).map(drop), Err(Errno::ACCESS));
        }
        // A file may be renamed to it and replaces it, as on Linux.
        client.remove(Opcode::Unlink, ROOT_NODE, name).unwrap();
    }
    // A folder of devices.
    let mut devices = device_client();
    for name in ["null", "zero", "full"] {
        let node = devices.lookup(ROOT_NODE, name).unwrap();
        assert_eq!((node.attr.mode >> 12, node.attr.rdev), (2, 0));
        assert_eq!(devices.open(node.nodeid, O_RDONLY), Err(Errno::ACCESS));
    }
}

/// Client of `/dev`, for reading only.
fn device_client() -> Client {
    let mut client = Client::new();
    client.files.device = FilesClient::device("/dev".as_ref(), true, CachePolicy::Auto).unwrap();
    client.init().unwrap();
    client
}

#[test]
fn request_of_a_wrong_length_is_refused() {
    let mut client = Client::new();
    let header = InHeader { opcode: Opcode::Getattr.number(), nodeid: ROOT_NODE, ..InHeader::default() };
    for len in [0, 39, 57, 1 << 30, u32::MAX] {
        let request = [InHeader { len, ..header }.as_bytes(), &[0; 16]].concat();
        let (reply, _) = OutHeader::read_from_prefix(&client.files.exchange(&request, 200)).unwrap();
        assert_eq!(reply.error, -Errno::INVAL.raw_os_error(), "{len}");
    }
    // Truncated structures.
    for opcode in [Opcode::Getattr, Opcode::Setattr, Opcode::Open, Opcode::Write, Opcode::Init, Opcode::Mkdir]
    {
        assert_eq!(client.request(opcode.number(), ROOT_NODE, &[0; 3]), Err(Errno::INVAL));
        if opcode == Opcode::Init {
            client.init().unwrap();
        }
    }
    // No header, and no room for a reply: nothing is returned.
    assert!(client.files.exchange(&[0; 39], 200).is_empty());
    let request = [InHeader { len: 56, ..header }.as_bytes(), &[0; 16]].concat();
    assert!(client.files.exchange(&request, 15).is_empty());
    // Room for the header only.
    let (reply, _) = OutHeader::read_from_prefix(&client.files.exchange(&request, 100)).unwrap();
    assert_eq!(reply.error, -Errno::INVAL.raw_os_error());
}

#[test]
fn requests_of_a_gibibyte_are_refused() {
    let mut client = Client::new();
    let (_, fh) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    for size in [(1 << 20) + 1, 1 << 30, u32::MAX] {
        assert_eq!(client.read(fh, 0, size), Err(Errno::INVAL));
        let write = WriteIn { fh, size, ..WriteIn::default() };
        assert_eq!(client.request(Opcode::Write.number(), 0, write.as_bytes()), Err(Errno::INVAL));
        let directory = client.opendir(ROOT_NODE).unwrap();
        assert_eq!(client.entries((ROOT_NODE, directory), 0, size, true), Err(Errno::INVAL));
    }
    // More data than the write says, which a limit bounds.
    let body = vec![0; (1 << 20) + 8192];
    assert_eq!(client.request(Opcode::Write.number(), 0, &body), Err(Errno::TOOBIG));
    // Data that are missing.
    let write = WriteIn { fh, size: 100, ..WriteIn::default() };
    let body = [write.as_bytes(), &[1; 99]].concat();
    assert_eq!(client.request(Opcode::Write.number(), 0, &body), Err(Errno::INVAL));
    for offset in [1 << 63, u64::MAX] {
        assert_eq!(client.write(fh, offset, b"x"), Err(Errno::INVAL));
        let read = ReadIn { fh, offset, size: 1, ..ReadIn::default() };
        assert_eq!(client.request(Opcode::Read.number(), 0, read.as_bytes()), Err(Errno::INVAL));
    }
    assert_eq!(fs::metadata(client.host("file")).unwrap().len(), 0);
}

#[test]
fn reset_closes_everything() {
    use crate::devices::virtio::VirtioDevice;

    let mut client = Client::new();
    let (entry, fh) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    client.files.device.reset();
    client.init().unwrap();
    assert_eq!(client.getattr(entry.nodeid), Err(Errno::STALE));
    assert_eq!(client.read(fh, 0, 1), Err(Errno::BADF));
}
