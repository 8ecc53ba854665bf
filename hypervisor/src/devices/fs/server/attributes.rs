//! Attributes of inodes, and of the file system.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use hermit_fuse::flags::{GETATTR_FH, SetattrValid};
use hermit_fuse::reply::{Attr, AttrOut, StatfsOut};
use hermit_fuse::request::{AccessIn, GetattrIn, SetattrIn};
use rustix::fs::{
    OFlags, Stat, Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, fstat, fstatvfs, ftruncate, futimens,
    readlinkat,
};
use rustix::io::Errno;

use super::super::folder::Folder;
use super::{Handle, Reply, Request, RequestResult, Server};

/// Bit of access(2) that asks for write permission.
const W_OK: u32 = 2;

/// Permission bit of chmod(2): the owner may read the file.
const READ_BY_OWNER: u32 = 0o400;

/// User and group of all files, as the guest sees them: root, because the guest's program runs as root.
const ROOT: u32 = 0;

impl Server {
    /// Returns the attributes of an inode, or of the inode of an open file.
    pub(super) fn getattr(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let get: GetattrIn = request.read()?;
        let status = if get.getattr_flags & GETATTR_FH == 0 {
            fstat(&*self.nodes.get(request.header.nodeid)?)?
        } else {
            fstat(self.descriptor(get.fh)?)?
        };
        reply.write(&self.attr_out(&status))
    }

    /// Changes attributes.
    pub(super) fn setattr(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let set: SetattrIn = request.read()?;
        let valid = SetattrValid::from_bits_truncate(set.valid);
        let inode = self.nodes.get(request.header.nodeid)?;
        let owners = [(SetattrValid::UID, set.uid), (SetattrValid::GID, set.gid)];
        if owners.iter().any(|&(bit, id)| valid.contains(bit) && id != ROOT) {
            // Files belong to uhyve's user, and the guest sees them as root's. Another owner cannot be set.
            return Err(Errno::PERM.into());
        }
        if valid.contains(SetattrValid::SIZE) {
            self.set_size(&inode, valid.contains(SetattrValid::FH).then_some(set.fh), set.size)?;
        }
        if valid.contains(SetattrValid::MODE) {
            self.set_mode(request.header.nodeid, set.mode)?;
        }
        if valid.intersects(SetattrValid::ATIME | SetattrValid::MTIME) {
            let times = timestamps(&set, valid)?;
            futimens(&*self.open_to_change(request.header.nodeid)?, &times)?;
        }
        reply.write(&self.attr_out(&fstat(&*inode)?))
    }

    /// Sets permission bits. If the bits prevent this process's user from opening the file again, the file is
    /// kept open as long as the guest refers to it, so that the bits can still be changed.
    fn set_mode(&mut self, node: u64, mode: u32) -> Result<(), Errno> {
        let file = self.open_to_change(node)?;
        Folder::set_mode(&file, mode)?;
        if mode & READ_BY_OWNER == 0 {
            self.nodes.keep_open(node, file);
        }
        Ok(())
    }

    /// Returns the descriptor with which permissions and times of a node are changed.
    fn open_to_change(&self, node: u64) -> Result<Arc<OwnedFd>, Errno> {
        match self.nodes.opened(node) {
            Some(file) => Ok(file),
            None => Ok(Arc::new(self.folder.open_to_change(&*self.nodes.get(node)?)?)),
        }
    }

    /// Sets the size of a file. This needs a file that is open for writing: the guest's open file, or one
    /// that is opened here.
    fn set_size(&self, inode: &OwnedFd, handle: Option<u64>, size: u64) -> Result<(), Errno> {
        match handle {
            Some(handle) => ftruncate(self.file(handle)?, size),
            None => ftruncate(self.folder.reopen(inode, OFlags::WRONLY)?, size),
        }
    }

    /// Returns the size and the free space of the file system.
    pub(super) fn statfs(&self, reply: &mut Reply<'_>) -> RequestResult<()> {
        let status = fstatvfs(&*self.folder.root)?;
        let size = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        reply.write(&StatfsOut {
            blocks: status.f_blocks,
            bfree: status.f_bfree,
            bavail: status.f_bavail,
            files: status.f_files,
            ffree: status.f_ffree,
            bsize: size(status.f_bsize),
            namelen: size(status.f_namemax),
            frsize: size(status.f_frsize),
            ..StatfsOut::default()
        })
    }

    /// Checks access rights. The rights of uhyve's user count.
    pub(super) fn access(&self, request: &mut Request<'_>) -> RequestResult<()> {
        let AccessIn { mask, .. } = request.read()?;
        let inode = self.nodes.get(request.header.nodeid)?;
        if self.policy.is_read_only && mask & W_OK != 0 {
            return Err(Errno::ROFS.into());
        }
        Ok(self.folder.check_access(&inode, mask)?)
    }

    /// Returns the target of a symbolic link.
    pub(super) fn readlink(&self, request: &Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let inode = self.nodes.get(request.header.nodeid)?;
        // With an empty path, Linux returns ENOENT if the inode is not a symbolic link.
        let target = readlinkat(&*inode, "", Vec::new())
            .map_err(|error| if error == Errno::NOENT { Errno::INVAL } else { error })?;
        reply.write(target.as_bytes())
    }

    fn attr_out(&self, status: &Stat) -> AttrOut {
        let validity = self.policy.cache.validity();
        let (attr_valid, attr_valid_nsec) = (validity.as_secs(), validity.subsec_nanos());
        AttrOut { attr_valid, attr_valid_nsec, dummy: 0, attr: attr(status) }
    }

    /// Returns the descriptor of an open file or directory.
    pub(super) fn descriptor(&self, handle: u64) -> Result<&OwnedFd, Errno> {
        match self.handles.get(handle).ok_or(Errno::BADF)? {
            Handle::File(file) => Ok(file),
            Handle::Directory(directory) => Ok(directory),
        }
    }
}

fn timestamps(set: &SetattrIn, valid: SetattrValid) -> Result<Timestamps, Errno> {
    let time = |bit, now, seconds: u64, nanoseconds: u32| {
        let tv_nsec = match (valid.contains(bit), valid.contains(now)) {
            (false, _) => UTIME_OMIT,
            (true, true) => UTIME_NOW,
            // Larger numbers have special meanings (UTIME_NOW, UTIME_OMIT), which the guest must not use
            // here.
            (true, false) if nanoseconds < 1_000_000_000 => nanoseconds.into(),
            (true, false) => return Err(Errno::INVAL),
        };
        // A time before 1970 is negative, and arrives as a large unsigned number.
        Ok(Timespec { tv_sec: seconds.cast_signed(), tv_nsec })
    };
    Ok(Timestamps {
        last_access: time(SetattrValid::ATIME, SetattrValid::ATIME_NOW, set.atime, set.atimensec)?,
        last_modification: time(SetattrValid::MTIME, SetattrValid::MTIME_NOW, set.mtime, set.mtimensec)?,
    })
}

/// Returns the attributes as the guest sees them: root is the owner, and device numbers are missing.
pub(super) fn attr(status: &Stat) -> Attr {
    let unsigned = |value: i64| u64::try_from(value).unwrap_or_default();
    let nanoseconds = |value: u64| u32::try_from(value).unwrap_or_default();
    Attr {
        ino: status.st_ino,
        size: unsigned(status.st_size),
        blocks: unsigned(status.st_blocks),
        atime: status.st_atime.cast_unsigned(),
        mtime: status.st_mtime.cast_unsigned(),
        ctime: status.st_ctime.cast_unsigned(),
        atimensec: nanoseconds(status.st_atime_nsec),
        mtimensec: nanoseconds(status.st_mtime_nsec),
        ctimensec: nanoseconds(status.st_ctime_nsec),
        mode: status.st_mode,
        nlink: u32::try_from(status.st_nlink).unwrap_or(u32::MAX),
        uid: ROOT,
        gid: ROOT,
        rdev: 0,
        blksize: u32::try_from(status.st_blksize).unwrap_or(4096),
        flags: 0,
    }
}
