//! Entries of directories.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use hermit_fuse::Opcode;
use hermit_fuse::dirent::{Dirent, record_size, write_record};
use hermit_fuse::reply::EntryOut;
use hermit_fuse::request::{OpenIn, ReadIn};
use rustix::fs::{FileType, OFlags, RawDir, RawDirEntry, SeekFrom, fstat, seek};
use rustix::io::Errno;

use super::files::checked_size;
use super::{Handle, Reply, Request, RequestResult, Server};

/// Size in bytes of the buffer for one getdents(2).
const BUFFER: usize = 32 * 1024;

impl Server {
    /// Opens a directory.
    pub(super) fn opendir(&mut self, request: &mut Request<'_>, reply: &mut Reply<'_>) -> RequestResult<()> {
        let OpenIn { .. } = request.read()?;
        let inode = self.nodes.get(request.header.nodeid)?;
        let directory = self.folder.reopen(&inode, OFlags::RDONLY | OFlags::DIRECTORY)?;
        reply.write(&self.open_out(Handle::Directory(Arc::new(directory)))?)
    }

    /// Returns the entries of a directory after an offset, as many as fit into the reply; an empty reply at
    /// the end.
    pub(super) fn readdir(
        &mut self,
        opcode: Opcode,
        request: &mut Request<'_>,
        reply: &mut Reply<'_>,
    ) -> RequestResult<()> {
        let ReadIn { fh, offset, size, .. } = request.read()?;
        let Some(Handle::Directory(directory)) = self.handles.get(fh) else {
            return Err(Errno::BADF.into());
        };
        let directory = Arc::clone(directory);
        let inode = self.nodes.get(request.header.nodeid)?;
        let room = checked_size(size)?.min(reply.room());
        let mut records = Records { bytes: vec![0; room], used: 0 };
        let is_plus = opcode == Opcode::Readdirplus;
        let found = seek(&*directory, SeekFrom::Start(offset))
            .and_then(|_| self.collect(&directory, &inode, is_plus, &mut records));
        match found {
            // If some entries were already added, they must be returned in spite of the error, because each
            // counts as a reference of the guest to an inode.
            Err(error) if records.used == 0 && !is_removed(&directory)? => Err(error.into()),
            _ => reply.write(records.bytes.get(..records.used).unwrap_or_default()),
        }
    }

    /// Adds entries, beginning at the position of `directory`, until there is no more room. `inode` is the
    /// `O_PATH` descriptor of the directory.
    fn collect(
        &mut self,
        directory: &OwnedFd,
        inode: &OwnedFd,
        is_plus: bool,
        records: &mut Records,
    ) -> Result<(), Errno> {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut entries = RawDir::new(directory, &mut buffer);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if records.room() < record_size(name.len(), is_plus) {
                // Not even one entry fits. An empty reply would mean the end, so this is an error.
                return Err(Errno::INVAL);
            }
            match self.attributes_of(inode, name, is_plus) {
                Ok(found) => records.push(&entry, found.as_ref()),
                // The entry was removed meanwhile.
                Err(Errno::NOENT) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the attributes of an entry for `Readdirplus`. Returns `None` for `.` and `..`, for names that
    /// cannot be looked up, such as mount points, and if there is no room for another node. The reply then
    /// has node 0.
    fn attributes_of(
        &mut self,
        directory: &OwnedFd,
        name: &[u8],
        is_plus: bool,
    ) -> Result<Option<EntryOut>, Errno> {
        if !is_plus {
            return Ok(None);
        }
        if matches!(name, b"." | b"..") {
            return Ok(Some(EntryOut::default()));
        }
        match self.find(directory, name) {
            Err(Errno::NOENT) => Err(Errno::NOENT),
            found => Ok(Some(found.unwrap_or_default())),
        }
    }
}

/// Returns true if a directory has been removed. Reading a removed directory must find its end, but the host
/// returns errors: getdents(2) returns `ENOENT`, which C libraries take for the end, and ext4 refuses to seek
/// even to valid positions (`EINVAL`).
fn is_removed(directory: &OwnedFd) -> Result<bool, Errno> {
    Ok(fstat(directory)?.st_nlink == 0)
}

/// Directory records of a reply that is being written.
struct Records {
    bytes: Vec<u8>,
    used: usize,
}

impl Records {
    fn room(&self) -> usize {
        self.bytes.len() - self.used
    }

    fn push(&mut self, entry: &RawDirEntry<'_>, attributes: Option<&EntryOut>) {
        let dirent = Dirent {
            ino: entry.ino(),
            off: entry.next_entry_cookie(),
            namelen: 0,
            kind: match entry.file_type() {
                // 0 is `DT_UNKNOWN`.
                FileType::Unknown => 0,
                known => known.as_raw_mode() >> 12,
            },
        };
        let rest = self.bytes.get_mut(self.used..).unwrap_or_default();
        self.used += write_record(rest, attributes, dirent, entry.file_name().to_bytes()).unwrap_or_default();
    }
}
