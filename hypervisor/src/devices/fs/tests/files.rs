//! Open files and attributes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use hermit_fuse::flags::{FSYNC_DATASYNC, GETATTR_FH, SetattrValid};
use hermit_fuse::reply::{AttrOut, InitOut, LseekOut, StatfsOut};
use hermit_fuse::request::{AccessIn, FallocateIn, FlushIn, FsyncIn, GetattrIn, InitIn, LseekIn, SetattrIn};
use hermit_fuse::{MAJOR_VERSION, MINOR_VERSION, Opcode, ROOT_NODE};
use hermit_options::mount::CachePolicy;
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::client::{Client, O_APPEND, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};
use crate::devices::virtio::VirtioDevice;

#[test]
fn configuration_space_has_tag_and_one_request_queue() {
    let client = Client::new();
    let mut config = [9; 44];
    client.files.device.read_config(0, &mut config);
    assert_eq!(config[..4], *b"fs0\0");
    assert!(config[4..36].iter().all(|&byte| byte == 0));
    assert_eq!(config[36..], [1, 0, 0, 0, 9, 9, 9, 9]);
    assert_eq!((client.files.device.device_type(), client.files.device.queue_sizes().len()), (26, 2));
}

#[test]
fn session_begins_with_a_known_version() {
    let folder = tempfile::tempdir().unwrap();
    let mut client = Client::without_session(folder, false, CachePolicy::Auto);
    assert_eq!(client.getattr(ROOT_NODE), Err(Errno::IO));
    let old = InitIn { major: MAJOR_VERSION, minor: MINOR_VERSION - 1, ..InitIn::default() };
    assert_eq!(client.call::<InitOut>(Opcode::Init, 0, &old, &[]), Err(Errno::PROTO));
    let new = InitIn { major: MAJOR_VERSION + 1, ..old };
    let reply: InitOut = client.call(Opcode::Init, 0, &new, &[]).unwrap();
    assert_eq!((reply.major, reply.minor, reply.max_write), (7, 31, 0));
    assert_eq!(client.getattr(ROOT_NODE), Err(Errno::IO));
    let reply = client.init().unwrap();
    assert_eq!((reply.major, reply.max_write, reply.max_pages), (7, 1 << 20, 256));
    client.getattr(ROOT_NODE).unwrap();
    client.request(Opcode::Destroy.number(), 0, &[]).unwrap();
    assert_eq!(client.getattr(ROOT_NODE), Err(Errno::IO));
}

#[test]
fn data_written_on_one_side_are_read_on_the_other() {
    let mut client = Client::new();
    let (entry, fh) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    assert_eq!(client.write(fh, 3, b"guest"), Ok(5));
    assert_eq!(fs::read(client.host("file")).unwrap(), b"\0\0\0guest");
    fs::write(client.host("file"), b"of the host").unwrap();
    assert_eq!(client.read(fh, 3, 100).unwrap(), b"the host");
    assert_eq!(client.read(fh, 11, 100).unwrap(), b"");
    assert_eq!(client.getattr(entry.nodeid).unwrap().attr.size, 11);
    let mebibyte: Vec<u8> = (0..=250).cycle().take(1 << 20).collect();
    assert_eq!(client.write(fh, 0, &mebibyte), Ok(1 << 20));
    assert_eq!(client.read(fh, 0, 1 << 20).unwrap(), mebibyte);
    assert_eq!(client.release(fh), Ok(()));
    assert_eq!(client.read(fh, 0, 1), Err(Errno::BADF));
}

#[test]
fn mebibyte_is_moved_by_one_request() {
    let mut client = Client::new();
    let (_, fh) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    let data: Vec<u8> = (0..1 << 20).map(|index: u32| index.to_le_bytes()[1]).collect();
    assert_eq!(client.write(fh, 5, &data), Ok(1 << 20));
    assert_eq!(client.read(fh, 5, 1 << 20).as_ref(), Ok(&data));
    assert_eq!(fs::read(client.host("file")).unwrap().get(5..), Some(&data[..]));
}

#[test]
fn access_mode_and_append_are_those_of_open() {
    let mut client = Client::new();
    fs::write(client.host("file"), b"text").unwrap();
    let node = client.walk("file");
    let reader = client.open(node, O_RDONLY).unwrap();
    assert_eq!(client.write(reader, 0, b"x"), Err(Errno::BADF));
    let writer = client.open(node, O_WRONLY | O_APPEND).unwrap();
    assert_eq!(client.read(writer, 0, 1), Err(Errno::BADF));
    client.write(writer, 0, b" more").unwrap();
    assert_eq!(client.read(reader, 0, 100).unwrap(), b"text more");
    client.open(node, O_WRONLY | O_TRUNC).unwrap();
    assert_eq!(client.read(reader, 0, 100).unwrap(), b"");
}

#[test]
fn open_file_outlives_its_name() {
    let mut client = Client::new();
    let (entry, fh) = client.create(ROOT_NODE, "file", O_RDWR, 0o600).unwrap();
    client.remove(Opcode::Unlink, ROOT_NODE, "file").unwrap();
    client.write(fh, 0, b"text").unwrap();
    assert_eq!(client.read(fh, 0, 10).unwrap(), b"text");
    let again = client.open(entry.nodeid, O_RDONLY).unwrap();
    assert_eq!(client.read(again, 0, 10).unwrap(), b"text");
    let get = GetattrIn { getattr_flags: GETATTR_FH, dummy: 0, fh };
    let out: AttrOut = client.call(Opcode::Getattr, ROOT_NODE, &get, &[]).unwrap();
    assert_eq!((out.attr.size, out.attr.nlink), (4, 0));
}

#[test]
fn attributes_are_set() {
    let mut client = Client::new();
    let (entry, fh) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    let node = entry.nodeid;
    let set = SetattrIn { size: 10, mode: 0o604, atime: 5, atimensec: 6, mtime: 7, ..SetattrIn::default() };
    let valid = SetattrValid::SIZE | SetattrValid::MODE | SetattrValid::ATIME | SetattrValid::MTIME;
    let attr = client.setattr(node, valid, set).unwrap().attr;
    assert_eq!((attr.size, attr.mode, attr.atime, attr.atimensec, attr.mtime), (10, 0o100_604, 5, 6, 7));
    let metadata = fs::metadata(client.host("file")).unwrap();
    assert_eq!((metadata.len(), metadata.mode() & 0o777, metadata.mtime()), (10, 0o604, 7));
    // Before 1970, and the host's present time.
    let set = SetattrIn { atime: (-3_i64).cast_unsigned(), ..SetattrIn::default() };
    client.setattr(node, SetattrValid::ATIME | SetattrValid::MTIME | SetattrValid::MTIME_NOW, set).unwrap();
    let metadata = fs::metadata(client.host("file")).unwrap();
    assert!(metadata.atime() == -3 && metadata.mtime() > 1_000_000_000);
    let set = SetattrIn { fh, size: 3, ..SetattrIn::default() };
    client.setattr(node, SetattrValid::SIZE | SetattrValid::FH, set).unwrap();
    assert_eq!(fs::metadata(client.host("file")).unwrap().len(), 3);
    let set = SetattrIn { mtimensec: 1_000_000_000, ..SetattrIn::default() };
    assert_eq!(client.setattr(node, SetattrValid::MTIME, set), Err(Errno::INVAL));
}

/// An ordinary user cannot open a file of mode 0 again, so the device must keep it open.
#[test]
fn permissions_that_keep_a_file_from_being_opened_can_be_changed_again() {
    let mut client = Client::new();
    let (file, _) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    let directory = client.mkdir(ROOT_NODE, "directory", 0o777).unwrap();
    for (node, name) in [(file.nodeid, "file"), (directory.nodeid, "directory"), (ROOT_NODE, "")] {
        for mode in [0, 0o200, 0o755] {
            let set = SetattrIn { mode, mtime: 7, ..SetattrIn::default() };
            client.setattr(node, SetattrValid::MODE | SetattrValid::MTIME, set).unwrap();
            let metadata = fs::metadata(client.host(name)).unwrap();
            assert_eq!((metadata.mode() & 0o777, metadata.mtime()), (mode, 7), "{name}");
        }
    }
    // New descriptors work as those before did.
    client.create(directory.nodeid, "new", O_RDWR, 0o666).unwrap();
    client.link(file.nodeid, ROOT_NODE, "second").unwrap();
    let fh = client.open(file.nodeid, O_RDONLY).unwrap();
    client.read(fh, 0, 10).unwrap();
}

#[test]
fn everything_belongs_to_root_and_cannot_be_given_away() {
    let mut client = Client::new();
    let (entry, _) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    assert_eq!((entry.attr.uid, entry.attr.gid), (0, 0));
    let both = SetattrValid::UID | SetattrValid::GID;
    client.setattr(entry.nodeid, both, SetattrIn::default()).unwrap();
    let set = SetattrIn { uid: 1, ..SetattrIn::default() };
    assert_eq!(client.setattr(entry.nodeid, both, set), Err(Errno::PERM));
}

#[test]
fn set_id_bits_never_reach_the_host() {
    let mut client = Client::new();
    let (entry, _) = client.create(ROOT_NODE, "file", O_RDWR, 0o6777).unwrap();
    client.mkdir(ROOT_NODE, "directory", 0o7777).unwrap();
    let set = SetattrIn { mode: 0o6755, ..SetattrIn::default() };
    for name in ["file", "directory"] {
        let mode = fs::metadata(client.host(name)).unwrap().permissions().mode();
        assert_eq!((mode & 0o6000, mode & 0o700), (0, 0o700), "{name}: {mode:o}");
    }
    assert_eq!(client.setattr(entry.nodeid, SetattrValid::MODE, set).unwrap().attr.mode, 0o100_755);
}

#[test]
fn storage_requests_reach_the_file() {
    let mut client = Client::new();
    let (_, fh) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    let directory = client.opendir(ROOT_NODE).unwrap();
    let fallocate = FallocateIn { fh, offset: 0, length: 8192, mode: 0, padding: 0 };
    client.request(Opcode::Fallocate.number(), 0, fallocate.as_bytes()).unwrap();
    assert_eq!(fs::metadata(client.host("file")).unwrap().len(), 8192);
    let insert = FallocateIn { mode: 0x20, ..fallocate };
    assert_eq!(client.request(Opcode::Fallocate.number(), 0, insert.as_bytes()), Err(Errno::OPNOTSUPP));
    for fsync_flags in [0, FSYNC_DATASYNC] {
        let fsync = FsyncIn { fh, fsync_flags, padding: 0 };
        client.request(Opcode::Fsync.number(), 0, fsync.as_bytes()).unwrap();
        let fsync = FsyncIn { fh: directory, ..fsync };
        client.request(Opcode::Fsyncdir.number(), 0, fsync.as_bytes()).unwrap();
    }
    let flush = FlushIn { fh, ..FlushIn::default() };
    // The result depends on the file system of temporary files: some report errors at close, others do not.
    let flushed = client.request(Opcode::Flush.number(), 0, flush.as_bytes());
    assert!(matches!(flushed, Ok(_) | Err(Errno::NOSYS)), "{flushed:?}");
    let unknown = FlushIn { fh: u64::MAX, ..flush };
    assert_eq!(client.request(Opcode::Flush.number(), 0, unknown.as_bytes()), Err(Errno::BADF));
    let hole = LseekIn { fh, offset: 1, whence: 4, padding: 0 };
    let found: LseekOut = client.call(Opcode::Lseek, 0, &hole, &[]).unwrap();
    assert!((1..=8192).contains(&found.offset));
    let end = LseekIn { whence: 2, ..hole };
    assert_eq!(client.call::<LseekOut>(Opcode::Lseek, 0, &end, &[]), Err(Errno::INVAL));
    let statfs: StatfsOut = client.call(Opcode::Statfs, ROOT_NODE, &[0_u8; 0], &[]).unwrap();
    assert!(statfs.blocks > 0 && statfs.frsize > 0 && statfs.namelen >= 255);
    let access = AccessIn { mask: 6, padding: 0 };
    client.request(Opcode::Access.number(), ROOT_NODE, access.as_bytes()).unwrap();
}

#[test]
fn locks_attributes_and_device_nodes_are_not_supported() {
    let mut client = Client::new();
    for opcode in [Opcode::Getlk, Opcode::Setlk, Opcode::Setlkw, Opcode::Getxattr, Opcode::Setxattr] {
        let body = [0_u8; 48];
        assert_eq!(client.request(opcode.number(), ROOT_NODE, &body), Err(Errno::NOSYS));
    }
    let mknod = [&[0; 16][..], b"node\0"].concat();
    assert_eq!(client.request(Opcode::Mknod.number(), ROOT_NODE, &mknod), Err(Errno::PERM));
    for unknown in [0, 7, 51, 4096, u32::MAX] {
        assert_eq!(client.request(unknown, ROOT_NODE, &[0; 64]), Err(Errno::NOSYS));
    }
    assert_eq!(fs::read_dir(client.folder.path()).unwrap().count(), 0);
}

#[test]
fn validity_follows_the_cache_policy() {
    for (cache, seconds) in [(CachePolicy::Auto, 1), (CachePolicy::Always, 86_400), (CachePolicy::Never, 0)] {
        let mut client = Client::with(tempfile::tempdir().unwrap(), false, cache);
        let (entry, _) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
        assert_eq!((entry.entry_valid, entry.attr_valid), (seconds, seconds));
        assert_eq!(client.getattr(ROOT_NODE).unwrap().attr_valid, seconds);
        let missing = client.lookup(ROOT_NODE, "none").map(|entry| (entry.nodeid, entry.entry_valid));
        let expected = if cache == CachePolicy::Always { Ok((0, seconds)) } else { Err(Errno::NOENT) };
        assert_eq!(missing, expected);
    }
}
