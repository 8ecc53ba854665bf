//! Tests of trees of temporary folders.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use hermit_interface::tar::{Content, Entries, Entry};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use tempfile::tempdir;

use super::{Initramfs, RootError};
use crate::open::Opener;

fn load(path: &Path) -> Result<Initramfs, RootError> {
    Initramfs::load(&Opener::default(), path, 1 << 20)
}

fn error(path: &Path) -> String {
    load(path).unwrap_err().to_string()
}

fn path(entry: &Entry<'_>) -> String {
    entry.path.to_string()
}

#[test]
fn folder_is_packed_in_order_with_links_and_modes() {
    let folder = tempdir().unwrap();
    let long = "long".repeat(40);
    fs::create_dir(folder.path().join("b")).unwrap();
    fs::write(folder.path().join("b/z"), "text").unwrap();
    fs::write(folder.path().join(&long), "").unwrap();
    fs::hard_link(folder.path().join("b/z"), folder.path().join("c")).unwrap();
    symlink("../x/./y", folder.path().join("a")).unwrap();
    fs::set_permissions(folder.path().join("b/z"), Permissions::from_mode(0o751)).unwrap();
    let _socket = UnixListener::bind(folder.path().join("socket")).unwrap();

    let initramfs = load(folder.path()).unwrap();
    let entries: Vec<_> = Entries::new(&initramfs.archive).map(Result::unwrap).collect();
    let paths: Vec<_> = entries.iter().map(path).collect();
    assert_eq!(paths, ["", "/a", "/b", "/b/z", "/c", &format!("/{long}")]);
    let [root, link, _, file, hard, _] = &entries[..] else { panic!("{entries:?}") };
    assert_eq!((root.content, link.content), (Content::Directory, Content::Symlink(b"../x/y")));
    assert_eq!((file.content, file.permissions), (Content::File(b"text"), 0o751));
    let Content::HardLink(target) = hard.content else { panic!("{hard:?}") };
    assert_eq!(target.to_string(), "/b/z");
    let modified = fs::metadata(folder.path().join("b/z")).unwrap().modified().unwrap();
    let modified = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert_eq!(file.modified.seconds, i64::try_from(modified).unwrap());
    let notes: Vec<_> = initramfs.notes().collect();
    assert!(notes.len() == 1 && notes[0].contains("/socket out"), "{notes:?}");
    assert_eq!(load(folder.path()).unwrap().archive, initramfs.archive);
}

#[test]
fn check_reads_an_archive_and_finds_a_folder() {
    let folder = tempdir().unwrap();
    let check =
        |path: &Path| Initramfs::check(&Opener::default(), path, 1 << 20).map_err(|error| error.to_string());
    assert_eq!(check(folder.path()), Ok(()));
    assert!(check(&folder.path().join("none")).unwrap_err().contains("cannot read"));
    let archive = folder.path().join("tree.tar");
    fs::write(&archive, load(folder.path()).unwrap().archive).unwrap();
    assert_eq!(check(&archive), Ok(()));
    fs::write(&archive, b"\x1f\x8b compressed").unwrap();
    assert!(check(&archive).unwrap_err().contains("decompress it first"));
}

#[test]
fn folder_by_a_symbolic_link_is_packed() {
    let folder = tempdir().unwrap();
    fs::create_dir(folder.path().join("tree")).unwrap();
    symlink("tree", folder.path().join("link")).unwrap();
    let initramfs = load(&folder.path().join("link")).unwrap();
    assert_eq!(Entries::new(&initramfs.archive).count(), 1);
}

#[test]
fn errors_name_the_file_and_what_is_wrong() {
    let folder = tempdir().unwrap();
    let file = folder.path().join("file");
    assert!(error(&file).starts_with(&format!("--root: cannot read {}: No such file", file.display())));
    fs::write(&file, "text").unwrap();
    assert!(error(&file).contains("file is no tar archive that can be read: the archive is truncated"));
    fs::write(&file, b"\x1f\x8b\x08").unwrap();
    assert!(error(&file).contains("compressed: decompress it first"));
    fs::write(&file, [b'x'; 512]).unwrap();
    assert!(error(&file).contains("no header of a tar archive"));
    fs::write(&file, vec![0; (1 << 20) + 1]).unwrap();
    for path in [&file, folder.path()] {
        assert!(
            error(path).contains("has more than 1 MiB, the memory of the machine: use a larger --memory")
        );
    }
    fs::remove_file(&file).unwrap();
    symlink("/proc/self/mem", &file).unwrap();
    assert!(error(&file).contains("cannot read"), "it cannot be read at 0");
    assert!(load(folder.path()).is_ok(), "a link that points anywhere is a link");
}

/// Another user exchanges a file with a link to a file that is not theirs, while root packs the folder.
#[test]
fn link_in_place_of_a_file_is_never_followed() {
    let (folder, other) = (tempdir().unwrap(), tempdir().unwrap());
    let secret = other.path().join("secret");
    fs::write(&secret, "secret of root!!").unwrap();
    let names = ["file", "link"].map(|name| folder.path().join(name));
    fs::write(&names[0], "text of the user").unwrap();
    symlink(&secret, &names[1]).unwrap();
    let stop = AtomicBool::new(false);
    let packed = thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                renameat_with(CWD, &names[0], CWD, &names[1], RenameFlags::EXCHANGE).unwrap();
            }
        });
        let packed: Vec<_> = (0..2000).map(|_| load(folder.path())).collect();
        stop.store(true, Ordering::Relaxed);
        packed
    });
    for initramfs in packed.into_iter().filter_map(Result::ok) {
        assert!(!initramfs.archive.windows(16).any(|bytes| bytes == b"secret of root!!"));
    }
}

#[test]
fn depth_of_folders_is_bounded() {
    let folder = tempdir().unwrap();
    let deep = |levels: usize| vec!["d"; levels].join("/");
    fs::create_dir_all(folder.path().join(deep(255))).unwrap();
    assert!(load(folder.path()).is_ok());
    fs::create_dir_all(folder.path().join(deep(256))).unwrap();
    assert!(error(folder.path()).contains("is more than 256 folders deep"));
}

/// Neither names nor links have contents that count.
#[test]
fn number_of_entries_is_bounded_by_the_memory() {
    let folder = tempdir().unwrap();
    for number in 0..8 {
        symlink("x", folder.path().join(number.to_string())).unwrap();
    }
    let packed = |memory| Initramfs::load(&Opener::default(), folder.path(), memory);
    assert!(packed(16 << 10).is_ok());
    assert!(matches!(packed(4 << 10), Err(RootError::TooLarge { .. })));
    assert!(matches!(packed(2 << 10), Err(RootError::TooLarge { .. })), "before the names are read");
}
