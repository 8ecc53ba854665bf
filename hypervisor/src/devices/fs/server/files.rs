//! Open files.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use hermit_fuse::flags::{FSYNC_DATASYNC, OpenReply};
use hermit_fuse::reply::{LseekOut, OpenOut, WriteOut};
use hermit_fuse::request::{FallocateIn, FlushIn, FsyncIn, LseekIn, OpenIn, ReadIn, ReleaseIn, WriteIn};
use hermit_options::mount::CachePolicy;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, fdatasync, fsync, seek};
use rustix::io::Errno;
use vm_memory::Permissions;

use super::super::config::MAX_DATA;
use super::super::vectored;
use super::{Handle, Reply, Request, RequestResult, Server};
use crate::devices::virtio::chain::Slices;

/// Permitted flags of fallocate(2): reserve space without a change of the size, punch a hole, zero a range.
const FALLOCATE: FallocateFlags =
    FallocateFlags::KEEP_SIZE.union(FallocateFlags::PUNCH_HOLE).union(FallocateFlags::ZERO_RANGE);

/// `whence` of lseek(2).
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;

impl Server {
    /// Opens a file.
    pub(super) fn open(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let OpenIn { flags, .. } = request.read()?;
        let inode = self.nodes.get(request.header.nodeid)?;
        self.require_handle()?;
        let file = self.open_inode(&inode, OFlags::from_bits_retain(flags))?;
        reply.write(&self.open_out(Handle::File(file))?)
    }

    /// Returns an error if there is no free handle. Called before a file is opened, because the open may
    /// already change something (`O_CREAT`, `O_TRUNC`).
    pub(super) fn require_handle(&self) -> Result<(), Errno> {
        if self.handles.is_full() { Err(Errno::NFILE) } else { Ok(()) }
    }

    /// Opens a file with the guest's flags.
    pub(super) fn open_inode(&self, inode: &OwnedFd, flags: OFlags) -> Result<OwnedFd, Errno> {
        let is_change = flags.intersects(OFlags::ACCMODE | OFlags::TRUNC);
        if self.policy.is_read_only && is_change {
            return Err(Errno::ROFS);
        }
        self.folder.reopen(inode, flags - OFlags::DIRECTORY)
    }

    /// Adds a handle, and returns the reply that names it.
    pub(super) fn open_out(&mut self, handle: Handle) -> Result<OpenOut, Errno> {
        let flags = match (self.policy.cache, &handle) {
            (CachePolicy::Auto, _) => OpenReply::empty(),
            (CachePolicy::Always, Handle::File(_)) => OpenReply::KEEP_CACHE,
            (CachePolicy::Always, Handle::Directory(_)) => OpenReply::KEEP_CACHE | OpenReply::CACHE_DIR,
            (CachePolicy::Never, Handle::File(_)) => OpenReply::DIRECT_IO,
            (CachePolicy::Never, Handle::Directory(_)) => OpenReply::empty(),
        };
        let fh = self.handles.insert(handle).ok_or(Errno::NFILE)?;
        Ok(OpenOut { fh, open_flags: flags.bits(), padding: 0 })
    }

    /// Reads into the guest's memory.
    pub(super) fn read(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let ReadIn { fh, offset, size, .. } = request.read()?;
        let file = self.file(fh)?;
        let size = checked_size(size)?;
        let (data, mut slices) = (reply.take(size), Slices::new());
        data.append_slices(0, request.memory, Permissions::Write, vectored::MAX_IOVECS, &mut slices)?;
        let count = vectored::read_at(file.as_fd(), &slices, offset).map_err(errno)?;
        reply.advance(count);
        Ok(())
    }

    /// Writes from the guest's memory.
    pub(super) fn write(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let WriteIn { fh, offset, size, .. } = request.read()?;
        let file = self.file(fh)?;
        let size = checked_size(size)?;
        if request.data.length() < size {
            return Err(Errno::INVAL.into());
        }
        let (data, mut slices) = (request.data.take(size), Slices::new());
        data.append_slices(0, request.memory, Permissions::Read, vectored::MAX_IOVECS, &mut slices)?;
        let count = vectored::write_at(file.as_fd(), &slices, offset).map_err(errno)?;
        reply.write(&WriteOut { size: u32::try_from(count).unwrap_or(u32::MAX), padding: 0 })
    }

    /// Handles the close of one of the guest's descriptors. Nothing is buffered here, but the host's file
    /// system may have errors to report.
    pub(super) fn flush(&mut self, request: &mut Request<'_>) -> RequestResult<()> {
        let FlushIn { fh, .. } = request.read()?;
        let file = self.file(fh)?;
        if self.policy.is_read_only {
            return Err(Errno::NOSYS.into());
        }
        Ok(self.folder.flush(file)?)
    }

    /// Closes a file or a directory.
    pub(super) fn release(&mut self, request: &mut Request<'_>) -> RequestResult<()> {
        let ReleaseIn { fh, .. } = request.read()?;
        self.handles.remove(fh).map(drop).ok_or_else(|| Errno::BADF.into())
    }

    /// Commits a file or a directory to storage.
    pub(super) fn fsync(&mut self, request: &mut Request<'_>) -> RequestResult<()> {
        let FsyncIn { fh, fsync_flags, .. } = request.read()?;
        let file = self.descriptor(fh)?;
        if self.policy.is_read_only {
            return Ok(());
        }
        Ok(if fsync_flags & FSYNC_DATASYNC == 0 { fsync(file) } else { fdatasync(file) }?)
    }

    /// Finds data or a hole. This moves the position of the host's file, which is not used for anything else.
    pub(super) fn lseek(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let LseekIn { fh, offset, whence, .. } = request.read()?;
        let from = match whence {
            SEEK_DATA => SeekFrom::Data(offset),
            SEEK_HOLE => SeekFrom::Hole(offset),
            _ => return Err(Errno::INVAL.into()),
        };
        reply.write(&LseekOut { offset: seek(self.file(fh)?, from)? })
    }

    /// Reserves or frees space.
    pub(super) fn fallocate(&mut self, request: &mut Request<'_>) -> RequestResult<()> {
        let FallocateIn { fh, offset, length, mode, .. } = request.read()?;
        let mode = FallocateFlags::from_bits(mode).filter(|&mode| FALLOCATE.contains(mode));
        Ok(fallocate(self.file(fh)?, mode.ok_or(Errno::OPNOTSUPP)?, offset, length)?)
    }

    /// Returns the file of a handle.
    pub(super) fn file(&self, handle: u64) -> Result<&OwnedFd, Errno> {
        match self.handles.get(handle).ok_or(Errno::BADF)? {
            Handle::File(file) => Ok(file),
            Handle::Directory(_) => Err(Errno::ISDIR),
        }
    }
}

/// Checks that the size of a request's data is within the limit.
pub(super) fn checked_size(size: u32) -> Result<usize, Errno> {
    usize::try_from(size).ok().filter(|&size| size <= MAX_DATA).ok_or(Errno::INVAL)
}

fn errno(error: io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}
