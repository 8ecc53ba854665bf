//! Names, links and renames.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use hermit_fuse::flags::{RENAME_EXCHANGE, RENAME_NOREPLACE, SetattrValid};
use hermit_fuse::request::SetattrIn;
use hermit_fuse::{Opcode, ROOT_NODE};
use hermit_options::mount::CachePolicy;
use rustix::io::Errno;

use super::client::{Client, O_EXCL, O_RDONLY, O_RDWR, O_TRUNC, O_WRONLY};

#[test]
fn names_are_made_found_and_removed() {
    let mut client = Client::new();
    let directory = client.mkdir(ROOT_NODE, "directory", 0o777).unwrap();
    assert_eq!(directory.attr.mode & 0o170_022, 0o040_000);
    let (file, _) = client.create(directory.nodeid, "file", O_RDWR, 0o666).unwrap();
    assert_eq!(client.walk("directory/file"), file.nodeid);
    assert_eq!(fs::metadata(client.host("directory/file")).unwrap().ino(), file.attr.ino);
    assert_eq!(client.mkdir(ROOT_NODE, "directory", 0o777), Err(Errno::EXIST));
    assert_eq!(client.lookup(ROOT_NODE, "none"), Err(Errno::NOENT));
    assert_eq!(client.lookup(file.nodeid, "x"), Err(Errno::NOTDIR));
    assert_eq!(client.remove(Opcode::Rmdir, ROOT_NODE, "directory"), Err(Errno::NOTEMPTY));
    assert_eq!(client.remove(Opcode::Unlink, ROOT_NODE, "directory"), Err(Errno::ISDIR));
    client.remove(Opcode::Unlink, directory.nodeid, "file").unwrap();
    client.remove(Opcode::Rmdir, ROOT_NODE, "directory").unwrap();
    assert_eq!(fs::read_dir(client.folder.path()).unwrap().count(), 0);
}

#[test]
fn existing_file_is_created_only_without_excl() {
    let mut client = Client::new();
    fs::write(client.host("file"), b"text").unwrap();
    assert_eq!(client.create(ROOT_NODE, "file", O_RDWR | O_EXCL, 0o666).map(drop), Err(Errno::EXIST));
    let (_, fh) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    assert_eq!(client.read(fh, 0, 10).unwrap(), b"text");
    let (_, fh) = client.create(ROOT_NODE, "file", O_RDWR | O_TRUNC, 0o666).unwrap();
    assert_eq!(client.read(fh, 0, 10).unwrap(), b"");
    fs::create_dir(client.host("directory")).unwrap();
    assert_eq!(client.create(ROOT_NODE, "directory", O_RDWR, 0o666).map(drop), Err(Errno::ISDIR));
}

#[test]
fn renames_move_exchange_and_refuse_to_replace() {
    let mut client = Client::new();
    fs::write(client.host("a"), b"a").unwrap();
    fs::write(client.host("b"), b"b").unwrap();
    let directory = client.mkdir(ROOT_NODE, "directory", 0o777).unwrap().nodeid;
    let root = |name| (ROOT_NODE, name);
    assert_eq!(client.rename(root("a"), root("b"), RENAME_NOREPLACE), Err(Errno::EXIST));
    client.rename(root("a"), root("b"), RENAME_EXCHANGE).unwrap();
    assert_eq!(fs::read(client.host("a")).unwrap(), b"b");
    client.rename(root("a"), (directory, "a"), 0).unwrap();
    assert_eq!(fs::read(client.host("directory/a")).unwrap(), b"b");
    assert_eq!(client.rename(root("b"), root("c"), 4), Err(Errno::INVAL));
    assert_eq!(client.rename(root("a"), root("c"), 0), Err(Errno::NOENT));
}

#[test]
fn links_share_a_node_and_symlinks_are_read_only_by_readlink() {
    let mut client = Client::new();
    let (file, _) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    let link = client.link(file.nodeid, ROOT_NODE, "link").unwrap();
    assert_eq!((link.nodeid, link.attr.nlink), (file.nodeid, 2));
    for (name, target) in [("relative", "file"), ("absolute", "/etc/passwd"), ("up", "../..")] {
        let entry = client.symlink(ROOT_NODE, name, target).unwrap();
        let read = client.request(Opcode::Readlink.number(), entry.nodeid, &[]).unwrap();
        assert_eq!(read, target.as_bytes());
        assert_eq!(fs::read_link(client.host(name)).unwrap().to_str(), Some(target));
    }
    assert_eq!(client.symlink(ROOT_NODE, "empty", ""), Err(Errno::NOENT));
    assert_eq!(client.request(Opcode::Readlink.number(), file.nodeid, &[]), Err(Errno::INVAL));
}

#[test]
fn symlinks_are_never_followed() {
    let mut client = Client::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("file"), b"secret").unwrap();
    let (file, folder) = (outside.path().join("file"), outside.path());
    symlink(&file, client.host("file")).unwrap();
    symlink(folder, client.host("folder")).unwrap();
    symlink("..", client.host("up")).unwrap();
    let root = client.getattr(ROOT_NODE).unwrap().attr.ino;
    for name in ["file", "folder", "up"] {
        let entry = client.lookup(ROOT_NODE, name).unwrap();
        assert_eq!(entry.attr.mode >> 12, 0o12, "{name}");
        let node = entry.nodeid;
        assert_eq!(client.open(node, O_RDONLY), Err(Errno::LOOP));
        assert_eq!(client.opendir(node), Err(Errno::LOOP));
        assert_eq!(client.create(ROOT_NODE, name, O_WRONLY | O_TRUNC, 0o666).map(drop), Err(Errno::LOOP));
        assert_eq!(client.lookup(node, "file"), Err(Errno::NOTDIR));
        assert_eq!(client.create(node, "new", O_RDWR, 0o666).map(drop), Err(Errno::NOTDIR));
        assert_eq!(client.mkdir(node, "new", 0o777), Err(Errno::NOTDIR));
        assert_eq!(client.remove(Opcode::Unlink, node, "file"), Err(Errno::NOTDIR));
        assert_eq!(client.rename((node, "file"), (ROOT_NODE, "x"), 0), Err(Errno::NOTDIR));
        let set = SetattrIn { size: 1, mode: 0o777, ..SetattrIn::default() };
        assert_eq!(client.setattr(node, SetattrValid::SIZE, set), Err(Errno::LOOP));
        assert_eq!(client.setattr(node, SetattrValid::MODE, set), Err(Errno::OPNOTSUPP));
        assert_eq!(client.setattr(node, SetattrValid::MTIME, set), Err(Errno::OPNOTSUPP));
        // A further name of the link itself.
        let copy = client.link(node, ROOT_NODE, &format!("copy of {name}")).unwrap();
        assert_eq!(copy.nodeid, node);
        assert_ne!(copy.attr.ino, root);
    }
    assert_eq!(fs::read(&file).unwrap(), b"secret");
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    assert!(fs::metadata(&file).unwrap().mtime() > 1_000_000_000);
}

#[test]
fn every_change_of_a_read_only_mount_is_erofs() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), b"text").unwrap();
    let mut client = Client::with(folder, true, CachePolicy::Auto);
    let (node, root) = (client.walk("file"), ROOT_NODE);
    let fh = client.open(node, O_RDONLY).unwrap();
    assert_eq!(client.read(fh, 0, 10).unwrap(), b"text");
    let (entry, _) = client.create(root, "file", O_RDONLY, 0o666).unwrap();
    assert_eq!(entry.nodeid, node);
    let read_only = Err(Errno::ROFS);
    for flags in [O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC] {
        assert_eq!(client.open(node, flags).map(drop), read_only);
        assert_eq!(client.create(root, "file", flags, 0o666).map(drop), read_only);
    }
    assert_eq!(client.create(root, "new", O_RDONLY, 0o666).map(drop), read_only);
    assert_eq!(client.write(fh, 0, b"x").map(drop), read_only);
    assert_eq!(client.mkdir(root, "new", 0o777).map(drop), read_only);
    assert_eq!(client.symlink(root, "new", "file").map(drop), read_only);
    assert_eq!(client.link(node, root, "new").map(drop), read_only);
    assert_eq!(client.rename((root, "file"), (root, "new"), 0), read_only);
    for opcode in [Opcode::Unlink, Opcode::Rmdir] {
        assert_eq!(client.remove(opcode, root, "file"), read_only);
    }
    for valid in [SetattrValid::MODE, SetattrValid::SIZE, SetattrValid::MTIME | SetattrValid::MTIME_NOW] {
        assert_eq!(client.setattr(node, valid, SetattrIn::default()).map(drop), read_only);
    }
    let [access, fallocate] = [[2_u8; 8].to_vec(), vec![0; 32]];
    assert_eq!(client.request(Opcode::Access.number(), node, &access).map(drop), read_only);
    assert_eq!(client.request(Opcode::Fallocate.number(), node, &fallocate).map(drop), read_only);
    assert_eq!(fs::read(client.host("file")).unwrap(), b"text");
    assert_eq!(fs::read_dir(client.folder.path()).unwrap().count(), 1);
}

#[test]
fn folder_that_disappears_is_eio() {
    let mut client = Client::new();
    let (_, fh) = client.create(ROOT_NODE, "file", O_RDWR, 0o666).unwrap();
    fs::remove_dir_all(client.folder.path()).unwrap();
    assert_eq!(client.lookup(ROOT_NODE, "file"), Err(Errno::IO));
    assert_eq!(client.create(ROOT_NODE, "new", O_RDWR, 0o666).map(drop), Err(Errno::IO));
    assert_eq!(client.mkdir(ROOT_NODE, "new", 0o777), Err(Errno::IO));
    // An open file stays usable after it was removed, as on any Linux.
    client.write(fh, 0, b"text").unwrap();
}
