//! A second program exchanges the files and directories that the guest uses.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use hermit_fuse::{Opcode, ROOT_NODE};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::client::{Client, O_RDWR, O_WRONLY, Outcome};

/// Number of attempts.
const ATTEMPTS: usize = 2000;

/// A thread that exchanges two names until this is dropped.
struct Exchanger {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exchanger {
    fn start(first: PathBuf, second: PathBuf) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                renameat_with(CWD, &first, CWD, &second, RenameFlags::EXCHANGE).unwrap();
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for Exchanger {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let result = self.thread.take().map_or(Ok(()), JoinHandle::join);
        assert!(result.is_ok() || thread::panicking(), "the thread has panicked");
    }
}

/// Result of a request on a name that another thread exchanges. Only these errors may occur. `ENFILE` would
/// be the worst: the device would refuse all further requests.
fn found<T>(outcome: Outcome<T>) -> Option<T> {
    let allowed = [Errno::NOTDIR, Errno::LOOP, Errno::AGAIN];
    outcome.map_err(|error| assert!(allowed.contains(&error), "{error}")).ok()
}

/// Makes and removes a file in a directory, and reads one.
fn work_in(client: &mut Client, directory: u64) {
    if let Some((entry, fh)) = found(client.create(directory, "new", O_WRONLY, 0o666)) {
        client.write(fh, 0, b"guest").unwrap();
        client.release(fh).unwrap();
        client.forget(entry.nodeid, 1);
        client.remove(Opcode::Unlink, directory, "new").unwrap();
    }
    if let Some(file) = found(client.lookup(directory, "secret")) {
        let fh = client.open(file.nodeid, O_RDWR).unwrap();
        assert_eq!(client.read(fh, 0, 100).unwrap(), b"public");
        client.release(fh).unwrap();
        client.forget(file.nodeid, 1);
    }
}

#[test]
fn directory_that_becomes_a_symlink_leads_nowhere() {
    let mut client = Client::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    fs::create_dir(client.host("victim")).unwrap();
    fs::write(client.host("victim/secret"), b"public").unwrap();
    symlink(outside.path(), client.host("other")).unwrap();
    // Dropped before the client, which removes the folder.
    let exchanger = Exchanger::start(client.host("victim"), client.host("other"));
    for _ in 0..ATTEMPTS {
        let Some(entry) = found(client.lookup(ROOT_NODE, "victim")) else { continue };
        work_in(&mut client, entry.nodeid);
        client.forget(entry.nodeid, 1);
    }
    drop(exchanger);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
}

#[test]
fn file_that_becomes_a_symlink_is_not_followed() {
    let mut client = Client::new();
    let outside = tempfile::tempdir().unwrap();
    fs::write(outside.path().join("secret"), b"secret").unwrap();
    fs::write(client.host("file"), b"public").unwrap();
    symlink(outside.path().join("secret"), client.host("other")).unwrap();
    // Dropped before the client, which removes the folder.
    let exchanger = Exchanger::start(client.host("file"), client.host("other"));
    for _ in 0..ATTEMPTS {
        let created = client.create(ROOT_NODE, "file", O_RDWR, 0o666);
        let Some((entry, fh)) = found(created) else { continue };
        assert_eq!(client.read(fh, 0, 100).unwrap(), b"public");
        client.write(fh, 0, b"public").unwrap();
        client.release(fh).unwrap();
        client.forget(entry.nodeid, 1);
    }
    drop(exchanger);
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
}
