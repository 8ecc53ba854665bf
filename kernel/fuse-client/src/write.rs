//! Writes to files. A server does not report the offset at which it has appended data. So an appending write
//! also asks for the size of the file.

use core::task::{Poll, ready};

use hermit_fs::{Call, Ino, OpenInode, Reply, WriteAt, Written};
use hermit_fuse::reply::{AttrOut, WriteOut};
use hermit_fuse::request::{GetattrIn, WriteIn};
use hermit_fuse::{InHeader, Opcode, Tag};
use hermit_interface::Errno;

use crate::client::{Extent, FuseClient, Stage};
use crate::convert;
use crate::handle::Handle;
use crate::message::Head;
use crate::reply::Failure;
use crate::transport::Transport;

/// Result of a message of a write.
enum WriteStep {
    Done(Written),
    /// This number of bytes was appended, and the size of the file must be requested.
    AskSize(u64),
}

impl<T: Transport> FuseClient<T> {
    /// Writes to a file.
    pub(crate) fn write_file(
        &self,
        call: &mut Call<'_, '_>,
        file: OpenInode,
        position: WriteAt,
        bytes: &[u8],
    ) -> Reply<Written> {
        let fh = Handle::decode(file.handle).file()?;
        // With `O_APPEND`, the server ignores the offset.
        let offset = if let WriteAt::Offset(offset) = position { offset } else { 0 };
        if bytes.is_empty() {
            return Poll::Ready(Ok(Written { count: 0, end: Some(offset) }));
        }
        match Stage::of(call) {
            Stage::First => {
                ready!(self.submit_write(
                    call,
                    file.ino.0,
                    WriteIn { fh, offset, ..WriteIn::default() },
                    bytes
                ))?;
            }
            Stage::Further(count) => return self.ask_size(call, file.ino.0, count),
            Stage::InFlight => {}
        }
        match ready!(self.take_write(call, file.ino, position, bytes.len()))? {
            WriteStep::Done(written) => Poll::Ready(Ok(written)),
            WriteStep::AskSize(count) => {
                Stage::go_on(call, count);
                self.ask_size(call, file.ino.0, count)
            }
        }
    }

    fn submit_write(
        &self,
        call: &mut Call<'_, '_>,
        node: u64,
        body: WriteIn,
        bytes: &[u8],
    ) -> Poll<Result<(), Errno>> {
        self.submit_sized(call, bytes.len().min(self.sizes.write), |size| {
            let data = bytes.get(..size).unwrap_or(bytes);
            let body = WriteIn { size: u32::try_from(data.len()).unwrap_or(u32::MAX), ..body };
            let split = [size_of::<InHeader>(), size_of::<WriteIn>()];
            let extent = Extent { split, data, reply: size_of::<WriteOut>(), ..Extent::default() };
            (Head::new(Opcode::Write, node, &body), extent)
        })
    }

    /// Requests the size of a file to which `count` bytes were appended.
    fn ask_size(&self, call: &mut Call<'_, '_>, node: u64, count: u64) -> Reply<Written> {
        let extent = Extent { state: count, ..Extent::reply(size_of::<AttrOut>()) };
        match self.submit(call, Head::new(Opcode::Getattr, node, &GetattrIn::default()), extent) {
            // The bytes were written, but their offset is unknown.
            Poll::Ready(Err(_)) => Poll::Ready(Ok(written(count, None))),
            _ => Poll::Pending,
        }
    }

    /// Takes the reply to a message of a write.
    fn take_write(
        &self,
        call: &mut Call<'_, '_>,
        ino: Ino,
        position: WriteAt,
        max: usize,
    ) -> Reply<WriteStep> {
        self.take(call, |payload, Tag { state, .. }| {
            if state != 0 {
                let attr = payload.map_err(Failure::from).and_then(|payload| payload.all::<AttrOut>());
                // The bytes were written even if this reply is an error.
                let size = attr.and_then(|attr| convert::attributes(ino, &attr)).map(|attr| attr.size);
                return Ok(WriteStep::Done(written(state, size.ok())));
            }
            let count = usize::try_from(payload?.all::<WriteOut>()?.size).unwrap_or(usize::MAX);
            if !(1..=max).contains(&count) {
                return Err(Failure::Invalid);
            }
            Ok(match position {
                WriteAt::Offset(offset) => {
                    WriteStep::Done(Written { count, end: Some(offset.saturating_add(count as u64)) })
                }
                WriteAt::End => WriteStep::AskSize(count as u64),
            })
        })
    }
}

fn written(count: u64, end: Option<u64>) -> Written {
    Written { count: usize::try_from(count).unwrap_or(usize::MAX), end }
}
