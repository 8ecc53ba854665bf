//! Tests with links and pipes in temporary folders.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;

use rustix::fs::{FileType, Mode, OFlags, mknodat};
use rustix::io::Errno;
use rustix::process::geteuid;
use tempfile::{TempDir, tempdir};

use super::{Kind, Opener, beneath};
use crate::mount::MountConfig;

/// A folder with a file and links to it: `link`, `chain` by `link`, and `sub/up`.
fn folder() -> TempDir {
    let folder = tempdir().unwrap();
    let path = folder.path();
    fs::create_dir(path.join("sub")).unwrap();
    fs::write(path.join("file"), "text").unwrap();
    symlink("file", path.join("link")).unwrap();
    symlink(path.join("link"), path.join("chain")).unwrap();
    symlink("../file", path.join("sub/up")).unwrap();
    symlink("sub", path.join("to-sub")).unwrap();
    folder
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn read(opener: &Opener, path: &Path) -> Result<String, String> {
    let text = opener.read(path, Kind::File).and_then(io::read_to_string);
    text.map_err(|error| error.to_string())
}

#[test]
fn links_in_folders_of_this_user_are_followed() {
    let folder = folder();
    let path = folder.path();
    for name in ["file", "link", "chain", "sub/up", "to-sub/up", "./sub/../link", "sub//../file"] {
        assert_eq!(read(&Opener::default(), &path.join(name)), Ok("text".to_owned()), "{name}");
    }
    for (name, kind) in [("to-sub", Kind::Folder), (".", Kind::Folder), ("to-sub/..", Kind::FileOrFolder)] {
        assert!(Opener::default().find(&path.join(name), kind).is_ok(), "{name}");
    }
}

#[test]
fn links_in_folders_that_others_can_write_are_refused() {
    let folder = folder();
    let path = folder.path();
    for mode in [0o757, 0o777] {
        set_mode(path, mode);
        for name in ["link", "chain", "to-sub/up"] {
            let error = read(&Opener::default(), &path.join(name)).unwrap_err();
            assert!(error.contains("is a link in a folder that others can write"), "{name}: {error}");
        }
        for name in ["file", "sub/up"] {
            assert_eq!(read(&Opener::default(), &path.join(name)), Ok("text".to_owned()), "{name}");
        }
    }
    // As /tmp: the links are this user's.
    set_mode(path, 0o1777);
    assert_eq!(read(&Opener::default(), &path.join("chain")), Ok("text".to_owned()));
}

#[test]
fn links_of_other_users_are_refused() {
    if !geteuid().is_root() {
        return;
    }
    let folder = folder();
    let path = folder.path();
    for (mode, owner, is_followed) in
        [(0o755, 0, true), (0o755, 1234, false), (0o1777, 1234, false), (0o775, 0, false)]
    {
        set_mode(path, mode);
        chown(path, Some(owner), Some(0)).unwrap();
        assert_eq!(read(&Opener::default(), &path.join("link")).is_ok(), is_followed, "{mode:o} {owner}");
    }
    set_mode(path, 0o1777);
    chown(path, Some(0), Some(0)).unwrap();
    std::os::unix::fs::lchown(path.join("link"), Some(1234), None).unwrap();
    assert!(read(&Opener::default(), &path.join("link")).is_err());
}

#[test]
fn links_in_folders_that_the_guest_can_write_are_refused() {
    let folder = folder();
    let path = folder.path();
    let opener = |text: String| Opener::new(&[text.parse::<MountConfig>().unwrap()]);
    let mounted = opener(format!("{}:/data", path.join("to-sub").display()));
    for name in ["sub/up", "to-sub/up", "sub/../sub/up"] {
        let error = read(&mounted, &path.join(name)).unwrap_err();
        assert!(error.contains("is a link in a folder that the guest can write"), "{name}: {error}");
    }
    for name in ["link", "sub/../link"] {
        assert_eq!(read(&mounted, &path.join(name)), Ok("text".to_owned()), "{name}");
    }
    let read_only = opener(format!("{}:/data:ro", path.display()));
    assert_eq!(read(&read_only, &path.join("link")), Ok("text".to_owned()));
}

#[test]
fn only_the_expected_kind_is_opened() {
    let folder = folder();
    let path = folder.path();
    mknodat(rustix::fs::CWD, path.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    symlink("pipe", path.join("to-pipe")).unwrap();
    for (name, kind, text) in [
        ("pipe", Kind::File, "it is a pipe, not a file"),
        ("to-pipe", Kind::FileOrFolder, "it is a pipe, not a file or a folder"),
        ("pipe", Kind::Disk, "it is a pipe, not a file or a block device"),
        ("sub", Kind::File, "it is a folder, not a file"),
        ("file", Kind::Folder, "it is a file, not a folder"),
    ] {
        let error = Opener::default().open(&path.join(name), kind, OFlags::RDWR).unwrap_err();
        assert_eq!(error.to_string(), text);
    }
    let error = Opener::default().read(Path::new("/dev/zero"), Kind::Disk).unwrap_err();
    assert!(error.to_string().contains("a character device"), "{error}");
    assert!(Opener::default().place_of_file(&path.join("to-pipe")).is_err());
}

#[test]
fn paths_that_lead_nowhere_are_errors_of_the_host() {
    let folder = folder();
    let path = folder.path();
    symlink("loop", path.join("loop")).unwrap();
    symlink("none", path.join("dangling")).unwrap();
    let error = |name: &str| {
        let error = Opener::default().read(&path.join(name), Kind::File).unwrap_err();
        error.raw_os_error().map(Errno::from_raw_os_error)
    };
    assert_eq!(error("none"), Some(Errno::NOENT));
    assert_eq!(error("none/none"), Some(Errno::NOENT));
    assert_eq!(error("dangling"), Some(Errno::NOENT));
    assert_eq!(error("file/none"), Some(Errno::NOTDIR));
    assert_eq!(error("loop"), Some(Errno::LOOP));
    assert!(Opener::default().read(Path::new(""), Kind::File).is_err());
    let place = Opener::default().place_of_file(&path.join("dangling")).unwrap();
    assert_eq!((place.name.to_str(), place.inode.is_none()), (Some("none"), true));
}

#[test]
fn beneath_follows_no_link_and_waits_for_no_pipe() {
    let folder = folder();
    let path = folder.path();
    mknodat(rustix::fs::CWD, path.join("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let folder = Opener::default().find(path, Kind::Folder).unwrap();
    let open = |name: &str| beneath(&folder, name.as_bytes(), OFlags::RDONLY, Mode::empty());
    assert!(open("file").is_ok() && open("pipe").is_ok());
    for (name, error) in [("link", Errno::LOOP), ("to-sub/up", Errno::LOOP), ("..", Errno::XDEV)] {
        assert_eq!(open(name).map(drop), Err(error), "{name}");
    }
    let root = Opener::default().find(Path::new("/"), Kind::Folder).unwrap();
    let mounted = beneath(root, b"proc", OFlags::PATH, Mode::empty());
    assert_eq!(mounted.map(drop), Err(Errno::XDEV), "another file system");
}
