//! Tests of names that one thread changes while another thread looks them up.

use std::sync::Arc;
use std::thread;

use hermit_abi::{O_CREAT, O_WRONLY};
use hermit_interface::Errno;

use super::kept::Shared;
use crate::interface::RenameFlags;
use crate::testing::{TestSystem, run, vfs};
use crate::vfs::{OpenFile, Symlinks, Vfs};

/// Number of rounds. After each round, the names are compared.
const ROUNDS: u32 = if cfg!(miri) { 2 } else { 30 };

/// Calls of each thread in a round.
const CALLS: u32 = if cfg!(miri) { 3 } else { 50 };

fn create(vfs: &Vfs<TestSystem>, path: &[u8]) -> Result<Arc<OpenFile<TestSystem>>, Errno> {
    match run(vfs.open(path, O_CREAT | O_WRONLY, 0o666))? {
        crate::OpenedPath::File(file) => Ok(file),
        crate::OpenedPath::Object(_) => Err(Errno::ENXIO),
    }
}

fn number(vfs: &Vfs<TestSystem>, path: &[u8]) -> Result<u64, Errno> {
    run(vfs.metadata(path, Symlinks::Keep)).map(|metadata| metadata.attr.number)
}

/// Exchanges, creates, moves and removes names while they are looked up. Exchanged names exist all the time.
/// After each round, lookups find exactly the names of the file system.
fn race(guest: &Vfs<TestSystem>, host: &Vfs<TestSystem>) {
    for path in [&b"/a"[..], b"/b", b"/a/d", b"/b/d"] {
        run(guest.create_directory(path, 0o777)).unwrap();
    }
    let paths = [&b"/a/d/x"[..], b"/b/d/x"];
    let files = paths.map(|path| create(guest, path).unwrap());
    let numbers = files.map(|file| run(file.metadata()).unwrap().attr.number);
    for _ in 0..ROUNDS {
        thread::scope(|scope| {
            scope.spawn(|| repeat(|| run(guest.rename(b"/a", b"/b", RenameFlags::EXCHANGE)).unwrap()));
            scope.spawn(|| repeat(|| change(guest)));
            for _ in 0..2 {
                scope.spawn(|| repeat(|| look_up(guest, paths, numbers)));
            }
        });
        for path in [paths[0], paths[1], b"/new", b"/moved"] {
            assert_eq!(number(guest, path), number(host, path), "{}", path.escape_ascii());
        }
    }
}

fn repeat(action: impl Fn()) {
    for _ in 0..CALLS {
        action();
    }
}

fn change(vfs: &Vfs<TestSystem>) {
    drop(create(vfs, b"/new").unwrap());
    run(vfs.rename(b"/new", b"/moved", RenameFlags::empty())).unwrap();
    run(vfs.remove_file(b"/moved")).unwrap();
}

fn look_up(vfs: &Vfs<TestSystem>, paths: [&[u8]; 2], numbers: [u64; 2]) {
    for path in paths {
        assert!(numbers.contains(&number(vfs, path).unwrap()));
    }
    for path in [&b"/new"[..], b"/moved"] {
        assert!(matches!(number(vfs, path), Ok(_) | Err(Errno::ENOENT)));
    }
}

#[test]
fn lookups_during_renames_find_names_that_exist_all_the_time() {
    let (_, vfs) = vfs(1 << 20);
    race(&vfs, &vfs);
}

#[test]
fn names_that_are_looked_up_during_a_change_are_not_kept() {
    let Shared { host, folder, .. } = Shared::new(u64::MAX);
    let guest = Vfs::new(folder).unwrap();
    race(&guest, &host);
}
