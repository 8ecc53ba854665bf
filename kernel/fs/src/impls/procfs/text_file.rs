//! An open file whose contents are a text.

use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use core::task::{Context, Poll};

use hermit_abi::{O_RDONLY, S_IFREG, SEEK_CUR, SEEK_SET};
use hermit_interface::{Errno, to_usize};
use hermit_io::{Object, ReadBuffer, Stat};

/// A text, and a position in it.
#[derive(Debug)]
pub(super) struct TextFile {
    text: Vec<u8>,
    position: AtomicU64,
}

impl TextFile {
    pub(super) const fn new(text: Vec<u8>) -> Self {
        Self { text, position: AtomicU64::new(0) }
    }

    /// The bytes from an offset on, at most `size`.
    fn bytes(&self, offset: u64, size: usize) -> &[u8] {
        let rest = self.text.get(to_usize(offset)..).unwrap_or_default();
        rest.get(..size.min(rest.len())).unwrap_or_default()
    }
}

impl Object for TextFile {
    fn poll_read(&self, _context: &mut Context<'_>, buffer: &mut ReadBuffer<'_>) -> Poll<Result<(), Errno>> {
        let behind = |offset: u64| Some(offset + self.bytes(offset, buffer.room()).len() as u64);
        let offset = self.position.fetch_update(Relaxed, Relaxed, behind).unwrap_or_else(|offset| offset);
        buffer.append(self.bytes(offset, buffer.room()));
        Poll::Ready(Ok(()))
    }

    fn poll_read_at(
        &self,
        _context: &mut Context<'_>,
        offset: u64,
        buffer: &mut ReadBuffer<'_>,
    ) -> Poll<Result<(), Errno>> {
        buffer.append(self.bytes(offset, buffer.room()));
        Poll::Ready(Ok(()))
    }

    /// The length is not known, as in Linux's `/proc`: a position from the end is invalid.
    fn seek(&self, offset: i64, whence: i32) -> Result<u64, Errno> {
        let base = match whence {
            SEEK_SET => 0,
            SEEK_CUR => self.position.load(Relaxed),
            _ => return Err(Errno::EINVAL),
        };
        let position = base.checked_add_signed(offset).filter(|position| i64::try_from(*position).is_ok());
        let position = position.ok_or(Errno::EINVAL)?;
        self.position.store(position, Relaxed);
        Ok(position)
    }

    fn status_flags(&self) -> i32 {
        O_RDONLY
    }

    fn stat(&self) -> Result<Stat, Errno> {
        Ok(Stat { mode: S_IFREG | 0o444, size: 0, block_size: 1024 })
    }

    fn set_nonblocking(&self, _nonblocking: bool) -> Result<(), Errno> {
        Ok(())
    }
}
