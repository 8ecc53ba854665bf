//! Advisory locks.

use std::fs::{self, File, TryLockError};
use std::io;
use std::sync::mpsc;
use std::thread;

use crate::{Row, show};

/// Opens a file with a new open file description. Creates the file if it does not exist.
fn open(path: &str) -> io::Result<File> {
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

fn attempt(result: Result<(), TryLockError>) -> String {
    match result {
        Ok(()) => "locked".into(),
        Err(TryLockError::WouldBlock) => "busy".into(),
        Err(TryLockError::Error(failure)) => show::error(&failure),
    }
}

/// Tries an exclusive and a shared lock of `x`, each through a new description.
fn others() -> io::Result<String> {
    Ok(format!("{} {}", attempt(open("x")?.try_lock()), attempt(open("x")?.try_lock_shared())))
}

/// Makes a file longer by a byte 25 times, each time under a lock that it has to wait for.
fn append_under_lock() -> io::Result<()> {
    let file = open("x")?;
    for _ in 0..25 {
        file.lock()?;
        let count = fs::read("y")?.len();
        fs::write("y", "x".repeat(count + 1))?;
        file.unlock()?;
    }
    Ok(())
}

pub(crate) const ROWS: &[Row] = &[
    ("lock.exclusive", || {
        let file = open("x")?;
        file.lock()?;
        others()
    }),
    ("lock.shared", || {
        let file = open("x")?;
        file.lock_shared()?;
        others()
    }),
    ("lock.none", || open("x").and_then(|_file| others())),
    ("lock.unlock", || {
        let file = open("x")?;
        file.lock()?;
        file.unlock()?;
        others()
    }),
    ("lock.unlock.without.lock", || Ok(show::result(open("x")?.unlock()))),
    ("lock.unlock.of.another.file", || {
        let file = open("x")?;
        file.lock()?;
        Ok(show::result(open("x")?.unlock()) + " " + &others()?)
    }),
    ("lock.close", || {
        let file = open("x")?;
        file.lock()?;
        drop(file);
        others()
    }),
    ("lock.close.of.a.clone", || {
        let file = open("x")?;
        file.lock()?;
        drop(file.try_clone()?);
        others()
    }),
    ("lock.of.a.clone.outlives.the.original", || {
        let file = open("x")?;
        let clone = file.try_clone()?;
        file.lock()?;
        drop(file);
        let before = others()?;
        drop(clone);
        Ok(before + ", " + &others()?)
    }),
    ("lock.of.a.clone.is.the.same", || {
        let file = open("x")?;
        file.lock()?;
        let clone = file.try_clone()?;
        let again = attempt(clone.try_lock());
        clone.unlock()?;
        Ok(again + " " + &others()?)
    }),
    ("lock.twice", || {
        let file = open("x")?;
        file.lock()?;
        Ok(show::result(file.lock()) + " " + &attempt(file.try_lock()) + " " + &others()?)
    }),
    ("lock.upgrade", || {
        let file = open("x")?;
        file.lock_shared()?;
        Ok(attempt(file.try_lock()) + " " + &others()?)
    }),
    ("lock.upgrade.of.one.of.two", || {
        let (first, second) = (open("x")?, open("x")?);
        first.lock_shared()?;
        second.lock_shared()?;
        let upgraded = attempt(first.try_lock());
        // The failed change of the lock has lost the old lock.
        Ok(format!("{upgraded} {}", attempt(second.try_lock())))
    }),
    ("lock.downgrade", || {
        let file = open("x")?;
        file.lock()?;
        Ok(attempt(file.try_lock_shared()) + " " + &others()?)
    }),
    ("lock.shared.by.many", || {
        let files = (0..20).map(|_| open("x")).collect::<io::Result<Vec<_>>>()?;
        let locked = files.iter().filter(|file| file.try_lock_shared().is_ok()).count();
        drop(files);
        Ok(format!("{locked} {}", others()?))
    }),
    ("lock.of.a.read.only.file", || {
        fs::write("x", "")?;
        let file = File::open("x")?;
        Ok(show::result(file.lock()) + " " + &others()?)
    }),
    ("lock.of.a.directory", || {
        fs::create_dir("d")?;
        let (first, second) = (File::open("d")?, File::open("d")?);
        Ok(show::result(first.lock()) + " " + &attempt(second.try_lock()))
    }),
    ("lock.of.another.name", || {
        let file = open("x")?;
        fs::hard_link("x", "y")?;
        file.lock()?;
        Ok(attempt(open("y")?.try_lock()))
    }),
    ("lock.of.another.file", || {
        let file = open("x")?;
        file.lock()?;
        Ok(attempt(open("y")?.try_lock()))
    }),
    ("lock.of.a.renamed.file", || {
        let file = open("x")?;
        file.lock()?;
        fs::rename("x", "y")?;
        Ok(attempt(open("x")?.try_lock()) + " " + &attempt(open("y")?.try_lock()))
    }),
    ("lock.of.a.removed.file", || {
        let file = open("x")?;
        fs::remove_file("x")?;
        Ok(show::result(file.lock()) + " " + &others()?)
    }),
    ("lock.does.not.protect", || {
        let file = open("x")?;
        file.lock()?;
        fs::write("x", "abc")?;
        fs::remove_file("x")?;
        Ok(format!("{}", file.metadata()?.len()))
    }),
    ("lock.waits", || {
        let file = open("x")?;
        file.lock()?;
        let (send, receive) = mpsc::channel();
        thread::scope(|scope| {
            let waiter = scope.spawn(move || {
                let other = open("x")?;
                send.send(attempt(other.try_lock())).map_err(io::Error::other)?;
                other.lock()?;
                fs::read_to_string("y")
            });
            let before = receive.recv().map_err(io::Error::other)?;
            fs::write("y", "written before the unlock")?;
            file.unlock()?;
            let after = waiter.join().map_err(|_| io::Error::other("panic"))??;
            Ok(format!("{before}, {after}"))
        })
    }),
    ("lock.many.wait", || {
        fs::write("y", "")?;
        thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(append_under_lock)).collect();
            let panicked = |_| io::Error::other("panic");
            threads.into_iter().try_for_each(|thread| thread.join().map_err(panicked)?)
        })?;
        Ok(format!("{}", fs::metadata("y")?.len()))
    }),
];
