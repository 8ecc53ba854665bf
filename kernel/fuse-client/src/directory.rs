//! Reads directories.

use alloc::vec::Vec;
use core::ops::ControlFlow;
use core::task::{Poll, ready};

use hermit_fs::{Call, DirEntry, EntriesPlus, FileType, OpenInode, Reply, System};
use hermit_fuse::Opcode;
use hermit_fuse::dirent::{Record, Records};
use hermit_fuse::request::ReadIn;
use hermit_interface::{Errno, MAX_NAME};

use crate::client::{Extent, FuseClient, Stage};
use crate::convert;
use crate::handle::Handle;
use crate::message::Head;
use crate::reply::Failure;
use crate::transport::Transport;

/// Maximum size in bytes of the entries in a reply. The first request uses only the room for which the
/// transport always has memory. This is enough for all entries of a small directory.
const ENTRIES: usize = 32 << 10;

/// Maximum offset of an entry. Programs see offsets as positions, whose type is `off_t`.
const MAX_OFFSET: u64 = i64::MAX.cast_unsigned();

/// Bit of a request's state, in addition to the offset. It is set if the request is `Readdirplus`.
const PLUS: u64 = 1 << 63;

impl<T: Transport> FuseClient<T> {
    /// Reads a directory, starting at a position. Uses `Readdirplus` if the caller asks for it.
    pub(crate) fn read_directory<S: System>(
        &self,
        call: &mut Call<'_, '_>,
        directory: OpenInode,
        (position, wants_plus): (u64, bool),
        entries: &mut EntriesPlus<'_, S>,
    ) -> Reply<()> {
        let handle = Handle::decode(directory.handle).directory()?;
        loop {
            let offset = match Stage::of(call) {
                Stage::First => Some(position),
                Stage::Further(offset) => Some(offset),
                Stage::InFlight => None,
            };
            if let Some(offset) = offset {
                let is_plus = wants_plus || self.listing.is_plus(handle);
                ready!(self.submit_readdir(call, directory.ino.0, handle, (offset, is_plus)))?;
            }
            let (state, bytes) = ready!(self.take(call, |payload, tag| {
                let mut bytes = Vec::new();
                payload?.extend(&mut bytes)?;
                Ok((tag.state, bytes))
            }))?;
            let (offset, is_plus) = (state & !PLUS, state & PLUS != 0);
            // Some file systems on servers have no file types in their directories. But the attributes have
            // the types, so the same entries are read again by `Readdirplus`.
            if !is_plus && has_unknown(&bytes) && self.listing.ask_plus(handle) {
                Stage::go_on(call, offset);
                continue;
            }
            match self.pass_on(Records::new(&bytes, is_plus), offset, entries) {
                Ok(ControlFlow::Continue(next)) => Stage::go_on(call, next),
                Ok(ControlFlow::Break(())) => return Poll::Ready(Ok(())),
                Err(_) => {
                    self.transport.stop();
                    return Poll::Ready(Err(Errno::EIO));
                }
            }
        }
    }

    fn submit_readdir(
        &self,
        call: &mut Call<'_, '_>,
        node: u64,
        fh: u64,
        (offset, is_plus): (u64, bool),
    ) -> Poll<Result<(), Errno>> {
        let min = self.transport.min_data();
        let wanted = if offset == 0 { min } else { ENTRIES.min(self.sizes.read) };
        self.submit_sized(call, wanted, |size| {
            let body =
                ReadIn { fh, offset, size: u32::try_from(size).unwrap_or(u32::MAX), ..ReadIn::default() };
            let (opcode, plus) = if is_plus { (Opcode::Readdirplus, PLUS) } else { (Opcode::Readdir, 0) };
            let extent = Extent { reply_data: size, state: offset | plus, ..Extent::default() };
            (Head::new(opcode, node, &body), extent)
        })
    }

    /// Passes the entries of a reply to the caller. Returns `Continue` with the offset of the next entry, or
    /// `Break` if the caller has stopped or the directory has ended. Drops the references to inodes of
    /// entries that it does not pass on.
    fn pass_on<S: System>(
        &self,
        mut records: Records<'_>,
        offset: u64,
        entries: &mut EntriesPlus<'_, S>,
    ) -> Result<ControlFlow<(), u64>, Failure> {
        let (mut next, mut result) = (None, ControlFlow::Continue(()));
        for record in records.by_ref() {
            let is_special = matches!(record.name, b"." | b"..");
            let inode = record.entry.filter(|inode| inode.nodeid != 0 && !is_special);
            // A file system that limits names in characters, such as vfat, may have names that are too long
            // in bytes. They are left out, since no call would accept them.
            let is_shown = result.is_continue() && record.name.len() <= MAX_NAME && !is_special;
            if is_shown && record.dirent.off <= MAX_OFFSET {
                result = entries(dir_entry(&record), inode.as_ref().map(convert::entry).transpose()?);
            } else if let Some(inode) = inode {
                self.send_forget(inode.nodeid, 1);
            }
            if result.is_continue() {
                next = Some(checked(record.dirent.off)?);
            }
        }
        match next {
            _ if result.is_break() => Ok(ControlFlow::Break(())),
            _ if !records.rest().is_empty() => Err(Failure::Invalid),
            None => Ok(ControlFlow::Break(())),
            // If the offset did not advance, the client would ask for the same entries in an endless loop.
            Some(next) if next == offset => Err(Failure::Invalid),
            Some(next) => Ok(ControlFlow::Continue(next)),
        }
    }
}

/// Returns true if a reply to `Readdir` has an entry of unknown type (`DT_UNKNOWN`).
fn has_unknown(bytes: &[u8]) -> bool {
    Records::new(bytes, false).any(|record| record.dirent.kind == 0)
}

/// Checks that an offset is allowed as the position of a file.
fn checked(offset: u64) -> Result<u64, Failure> {
    if offset > MAX_OFFSET { Err(Failure::Invalid) } else { Ok(offset) }
}

fn dir_entry<'a>(record: &Record<'a>) -> DirEntry<'a> {
    // The number of a type has the bits of the type in a mode. Some file systems leave it 0.
    let mode = if record.dirent.kind == 0 {
        record.entry.map_or(0, |entry| entry.attr.mode)
    } else {
        record.dirent.kind << 12
    };
    DirEntry {
        number: record.dirent.ino,
        file_type: FileType::of_mode(mode),
        name: record.name,
        next: record.dirent.off,
    }
}
