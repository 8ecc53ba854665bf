//! Lock on the file of a disk. Other VMs of uhyve and QEMU respect the lock.
//!
//! As in QEMU, the lock is a set of open file description locks (fcntl(2), `F_OFD_SETLK`) on bytes of the
//! file. For each kind of access there are two bytes: programs that use the access lock the first, and
//! programs that deny the access to others lock the second. Both bytes may lie beyond the end of the file.
//! flock(2) cannot be used, because it does not conflict with these locks.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};

/// Offset to which the number of an access is added: the byte that users of the access lock (QEMU,
/// block/file-posix.c).
const USED: libc::off_t = 100;

/// Offset to which the number of an access is added: the byte that programs lock that deny the access to
/// others.
const DENIED: libc::off_t = 200;

/// Numbers of accesses (bit numbers of QEMU's `BLK_PERM_*`): reads of consistent data, writes, changes of the
/// size.
const READ: libc::off_t = 0;
const WRITE: libc::off_t = 1;
const RESIZE: libc::off_t = 3;

/// Types of a lock on a byte (`struct flock`).
const SHARED: libc::c_int = libc::F_RDLCK;
const EXCLUSIVE: libc::c_int = libc::F_WRLCK;

/// Why a file is not locked.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Another VM, or another program, uses the file in a way that excludes this one.
    InUse,
    /// The host returned an error, for example because the file system has no locks.
    Host(io::Error),
}

/// Locks a disk until the last descriptor of this open file is closed. A disk may have either any number of
/// readers or one writer. Both deny other programs changes of the disk's size.
///
/// # Errors
///
/// See [`LockError`].
pub(crate) fn lock(file: &File, is_read_only: bool) -> Result<(), LockError> {
    Ok(try_lock(file, is_read_only)?)
}

fn try_lock(file: &File, is_read_only: bool) -> Result<(), Errno> {
    // Writers of uhyve exclude each other because their locks are exclusive, so one of two writers that start
    // at the same time wins. QEMU's writers take shared locks on the same bytes.
    if !is_read_only {
        lock_byte(file, USED + WRITE, EXCLUSIVE)?;
    }
    lock_byte(file, DENIED + WRITE, if is_read_only { SHARED } else { EXCLUSIVE })?;
    lock_byte(file, DENIED + RESIZE, SHARED)?;
    lock_byte(file, USED + READ, SHARED)?;
    // The check comes after the locks are taken: of two programs that start at the same time, at least one
    // then finds the locks of the other.
    for byte in [USED + WRITE, USED + RESIZE, DENIED + READ] {
        match holder(file, byte)? {
            None => {}
            // The holder is a writer of uhyve that is just starting: a running writer would hold DENIED +
            // WRITE exclusively, and this reader has a shared lock there. That lock has refused or will
            // refuse the writer. So this reader continues; otherwise both would be refused.
            Some(EXCLUSIVE) if is_read_only && byte == USED + WRITE => {}
            Some(_) => return Err(Errno::EAGAIN),
        }
    }
    Ok(())
}

fn lock_byte(file: &File, byte: libc::off_t, kind: libc::c_int) -> Result<(), Errno> {
    fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&byte_lock(byte, kind))).map(drop)
}

/// Returns the type of the lock that another open file has on this byte; `None` if there is no lock.
fn holder(file: &File, byte: libc::off_t) -> Result<Option<libc::c_int>, Errno> {
    let mut lock = byte_lock(byte, EXCLUSIVE);
    fcntl(file.as_fd(), FcntlArg::F_OFD_GETLK(&mut lock))?;
    Ok(Some(lock.l_type.into()).filter(|&kind: &libc::c_int| kind != libc::F_UNLCK))
}

fn byte_lock(byte: libc::off_t, kind: libc::c_int) -> libc::flock {
    let [kind, whence] = [kind, libc::SEEK_SET].map(|value| value.try_into().unwrap_or_default());
    libc::flock { l_type: kind, l_whence: whence, l_start: byte, l_len: 1, l_pid: 0 }
}

impl From<Errno> for LockError {
    fn from(error: Errno) -> Self {
        match error {
            // A conflict is always EAGAIN. POSIX also permits EACCES for other kinds of locks, but here
            // EACCES means that access is denied.
            Errno::EAGAIN => Self::InUse,
            error => Self::Host(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{DENIED, EXCLUSIVE, LockError, SHARED, USED, WRITE, holder, lock, lock_byte};
    use nix::errno::Errno;
    use std::fs::{File, OpenOptions};
    use tempfile::NamedTempFile;

    fn open(disk: &NamedTempFile, is_read_only: bool) -> File {
        OpenOptions::new().read(true).write(!is_read_only).open(disk.path()).unwrap()
    }

    fn is_in_use(disk: &NamedTempFile, is_read_only: bool) -> bool {
        match lock(&open(disk, is_read_only), is_read_only) {
            Ok(()) => false,
            Err(LockError::InUse) => true,
            Err(LockError::Host(error)) => panic!("{error}"),
        }
    }

    #[test]
    fn disk_has_readers_or_one_writer() {
        let disk = NamedTempFile::new().unwrap();
        for (first, second, expected) in
            [(false, false, true), (false, true, true), (true, false, true), (true, true, false)]
        {
            let holder = open(&disk, first);
            lock(&holder, first).unwrap();
            assert_eq!(is_in_use(&disk, second), expected, "read-only: {first}, then {second}");
            drop(holder);
            assert!(!is_in_use(&disk, second), "the lock has ended with its file");
        }
    }

    /// The writer has only its first lock when the reader takes all of its locks.
    #[test]
    fn one_of_a_writer_and_a_reader_that_start_at_the_same_time_wins() {
        let disk = NamedTempFile::new().unwrap();
        let (writer, reader) = (open(&disk, false), open(&disk, true));
        lock_byte(&writer, USED + WRITE, EXCLUSIVE).unwrap();
        assert!(lock(&reader, true).is_ok());
        assert_eq!(lock_byte(&writer, DENIED + WRITE, EXCLUSIVE), Err(Errno::EAGAIN));
        drop(reader);
        // The other order: the writer is first at the byte that decides.
        lock_byte(&writer, DENIED + WRITE, EXCLUSIVE).unwrap();
        assert!(is_in_use(&disk, true));
        lock(&writer, false).unwrap();
    }

    /// Each case is the set of bytes on which QEMU has shared locks: bytes of accesses that it uses, and
    /// bytes of accesses that it denies.
    #[test]
    fn disks_of_qemu_are_respected() {
        for (bytes, blocks_writer, blocks_reader) in [
            // A disk of a running machine.
            (&[100, 101, 201, 203][..], true, true),
            // A backing file, or a disk that is read.
            (&[100, 201, 203], true, false),
            // A writer and a reader that share writes.
            (&[100, 101], true, true),
            (&[100], false, false),
            // `qemu-img resize`, and a block job that denies consistent reads.
            (&[103], true, true),
            (&[200], true, true),
        ] {
            let disk = NamedTempFile::new().unwrap();
            let qemu = open(&disk, false);
            bytes.iter().for_each(|&byte| lock_byte(&qemu, byte, SHARED).unwrap());
            assert_eq!(is_in_use(&disk, false), blocks_writer, "a writer beside {bytes:?}");
            assert_eq!(is_in_use(&disk, true), blocks_reader, "a reader beside {bytes:?}");
        }
    }

    /// QEMU takes shared locks on some bytes, and then checks if another process has locked others. Both
    /// steps detect a disk of uhyve.
    #[test]
    fn qemu_respects_disks_of_uhyve() {
        let disk = NamedTempFile::new().unwrap();
        let writer = open(&disk, false);
        lock(&writer, false).unwrap();
        let qemu = open(&disk, false);
        for byte in [101, 201] {
            assert_eq!(lock_byte(&qemu, byte, SHARED), Err(Errno::EAGAIN), "byte {byte}");
        }
        for byte in [100, 203] {
            lock_byte(&qemu, byte, SHARED).unwrap();
            assert!(holder(&qemu, byte).unwrap().is_some(), "byte {byte}");
        }
    }

    #[test]
    fn host_error_is_not_taken_for_a_lock() {
        for error in [Errno::ENOLCK, Errno::EOPNOTSUPP, Errno::EINVAL, Errno::EACCES] {
            assert!(matches!(LockError::from(error), LockError::Host(_)), "{error}");
        }
    }
}
