//! Conversions between the types of the file system interface and the structures of the protocol.

use hermit_abi::S_IFMT;
use hermit_fs::{Attr, Entry, FileType, Ino, Lookup, SetAttr, SetTime, StatFs, System, Time};
use hermit_fuse::ROOT_NODE;
use hermit_fuse::flags::SetattrValid;
use hermit_fuse::reply::{self, AttrOut, EntryOut, StatfsOut};
use hermit_fuse::request::SetattrIn;

use crate::handle::Handle;
use crate::reply::Failure;

/// Nanoseconds of a second.
const SECOND: u32 = 1_000_000_000;

/// Bits of a mode that have a meaning: the type, and the permission bits.
const MODE: u32 = S_IFMT | 0o7777;

/// Preferred size in bytes of reads and writes if the server does not specify one.
const BLOCK_SIZE: u32 = 4096;

fn time(seconds: u64, nanoseconds: u32) -> Time {
    // Times before 1970 are negative numbers.
    Time { seconds: seconds.cast_signed(), nanoseconds: nanoseconds.min(SECOND - 1) }
}

/// Converts a validity to nanoseconds.
fn validity(seconds: u64, nanoseconds: u32) -> u64 {
    seconds.saturating_mul(SECOND.into()).saturating_add(nanoseconds.into())
}

fn attr(ino: Ino, validity: u64, attr: &reply::Attr) -> Result<Attr, Failure> {
    let has_type = FileType::of_mode(attr.mode).mode() == attr.mode & S_IFMT;
    if !has_type || i64::try_from(attr.size).is_err() {
        return Err(Failure::Invalid);
    }
    let ctime = time(attr.ctime, attr.ctimensec);
    Ok(Attr {
        ino,
        number: attr.ino,
        mode: attr.mode & MODE,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        size: attr.size,
        blocks: attr.blocks,
        block_size: if attr.blksize == 0 { BLOCK_SIZE } else { attr.blksize },
        atime: time(attr.atime, attr.atimensec),
        mtime: time(attr.mtime, attr.mtimensec),
        ctime,
        // The protocol does not have the time of creation.
        btime: ctime,
        validity,
    })
}

/// Attributes of an inode.
pub(crate) fn attributes(ino: Ino, reply: &AttrOut) -> Result<Attr, Failure> {
    attr(ino, validity(reply.attr_valid, reply.attr_valid_nsec), &reply.attr)
}

/// Converts an entry. The entry must have an inode. The root is an entry of no directory, so it is invalid
/// here.
pub(crate) fn entry<S: System>(reply: &EntryOut) -> Result<Entry<S>, Failure> {
    if matches!(reply.nodeid, 0 | ROOT_NODE) {
        return Err(Failure::Invalid);
    }
    let attr_validity = validity(reply.attr_valid, reply.attr_valid_nsec);
    let attr = attr(Ino(reply.nodeid), attr_validity, &reply.attr)?;
    Ok(Entry::new(attr, validity(reply.entry_valid, reply.entry_valid_nsec)))
}

/// Converts the result of a lookup.
pub(crate) fn lookup<S: System>(reply: &EntryOut) -> Result<Lookup<S>, Failure> {
    if reply.nodeid == 0 {
        return Ok(Lookup::Absent { validity: validity(reply.entry_valid, reply.entry_valid_nsec) });
    }
    entry(reply).map(Lookup::Found)
}

/// Usage of the file system.
pub(crate) fn usage(reply: &StatfsOut) -> StatFs {
    StatFs {
        block_size: if reply.frsize == 0 { reply.bsize } else { reply.frsize },
        blocks: reply.blocks,
        free_blocks: reply.bfree,
        inodes: reply.files.saturating_sub(reply.ffree),
    }
}

/// Returns the flag if the new time is the server's current time.
fn now(change: SetTime, flag: SetattrValid) -> SetattrValid {
    if change == SetTime::Now { flag } else { SetattrValid::empty() }
}

/// Seconds and nanoseconds of a new time.
const fn time_of(change: SetTime) -> (u64, u32) {
    match change {
        SetTime::Now => (0, 0),
        SetTime::To(time) => (time.seconds.cast_unsigned(), time.nanoseconds),
    }
}

/// Creates the structure of a request that changes attributes.
pub(crate) fn changes(changes: &SetAttr) -> SetattrIn {
    let mut body = SetattrIn::default();
    let mut valid = SetattrValid::empty();
    if let Some(permissions) = changes.permissions {
        valid |= SetattrValid::MODE;
        body.mode = permissions;
    }
    if let Some(size) = changes.size {
        valid |= SetattrValid::SIZE;
        body.size = size;
        if let Some(handle) = changes.handle {
            valid |= SetattrValid::FH;
            body.fh = Handle::decode(handle).number;
        }
    }
    if let Some(change) = changes.atime {
        valid |= SetattrValid::ATIME | now(change, SetattrValid::ATIME_NOW);
        (body.atime, body.atimensec) = time_of(change);
    }
    if let Some(change) = changes.mtime {
        valid |= SetattrValid::MTIME | now(change, SetattrValid::MTIME_NOW);
        (body.mtime, body.mtimensec) = time_of(change);
    }
    body.valid = valid.bits();
    body
}
