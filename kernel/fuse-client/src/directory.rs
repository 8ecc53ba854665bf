//! Reading of directories.

use alloc::vec::Vec;
use core::ops::ControlFlow;
use core::task::{Poll, ready};

use hermit_fs::{Call, DirEntry, FileType, OpenInode, Reply};
use hermit_fuse::Opcode;
use hermit_fuse::dirent::{Record, Records};
use hermit_fuse::request::ReadIn;
use hermit_interface::Errno;

use crate::client::{Extent, FuseClient, Handle, Stage};
use crate::message::Head;
use crate::reply::Failure;
use crate::transport::Transport;

/// Maximum size in bytes of the entries in a reply. The first reply, which has all entries of a small directory, has the room
/// that needs no memory.
const ENTRIES: usize = 32 << 10;

/// Maximum length of a name in bytes (`NAME_MAX`).
const MAX_NAME: usize = 255;

/// Maximum offset of an entry: offsets are positions of files.
const MAX_OFFSET: u64 = i64::MAX.cast_unsigned();

/// What the caller wants of the entries of a reply.
type Entries<'a> = dyn FnMut(DirEntry<'_>) -> ControlFlow<()> + 'a;

impl<T: Transport> FuseClient<T> {
    pub(crate) fn read_directory(
        &self,
        call: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut Entries<'_>,
    ) -> Reply<()> {
        let handle = Handle::decode(directory.handle).directory()?;
        loop {
            match Stage::of(call) {
                Stage::First => ready!(self.submit_readdir(call, directory.ino.0, handle, position))?,
                Stage::Further(offset) => ready!(self.submit_readdir(call, directory.ino.0, handle, offset))?,
                Stage::InFlight => {}
            }
            let (offset, bytes) = ready!(self.take(call, |payload, offset| {
                let mut bytes = Vec::new();
                payload?.extend(&mut bytes)?;
                Ok((offset, bytes))
            }))?;
            match pass_on(&bytes, offset, entries) {
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
        offset: u64,
    ) -> Poll<Result<(), Errno>> {
        let min = self.transport.min_data();
        let wanted = if offset == 0 { min } else { ENTRIES.min(self.sizes.read) };
        self.submit_sized(call, wanted, |size| {
            let body =
                ReadIn { fh, offset, size: u32::try_from(size).unwrap_or(u32::MAX), ..ReadIn::default() };
            let extent = Extent { reply_data: size, state: offset, ..Extent::default() };
            (Head::new(Opcode::Readdir, node, &body), extent)
        })
    }
}

/// Passes the entries of a reply on until the caller breaks or the directory ends; else returns the offset of the next entry.
fn pass_on(bytes: &[u8], offset: u64, entries: &mut Entries<'_>) -> Result<ControlFlow<(), u64>, Failure> {
    let mut records = Records::new(bytes, false);
    let mut next = None;
    for record in records.by_ref() {
        if record.dirent.off > MAX_OFFSET {
            return Err(Failure::Invalid);
        }
        next = Some(record.dirent.off);
        // File systems whose limit counts characters, such as vfat, have longer names, which no call accepts.
        let is_shown = record.name.len() <= MAX_NAME && record.name != b"." && record.name != b"..";
        if is_shown && entries(entry(&record)).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    match next {
        _ if !records.rest().is_empty() => Err(Failure::Invalid),
        None => Ok(ControlFlow::Break(())),
        // The server would be asked the same again and again.
        Some(next) if next == offset => Err(Failure::Invalid),
        Some(next) => Ok(ControlFlow::Continue(next)),
    }
}

fn entry<'a>(record: &Record<'a>) -> DirEntry<'a> {
    DirEntry {
        number: record.dirent.ino,
        // The number of a type is its bits in a mode; a server may not know it.
        file_type: FileType::of_mode(record.dirent.kind << 12),
        name: record.name,
        next: record.dirent.off,
    }
}
