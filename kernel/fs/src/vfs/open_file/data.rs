//! Reads and writes of the data of open files, as asynchronous functions.
//!
//! A file in memory is its [contents](crate::Contents). A file on a server has cached pages: a read copies as
//! much as the cache has, and requests the rest, as whole pages that are then cached. Large reads are not
//! cached, since copying their data once more takes longer than a request.

use core::future::poll_fn;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::Errno;
use hermit_io::ReadBuffer;

use super::OpenFile;
use crate::interface::System;
use crate::interface::file_system::{ReadTarget, WriteAt, Written, complete};
use crate::vfs::page_cache::{CachedOpening, MAX_READ};

impl<S: System> OpenFile<S> {
    /// Reads at an offset.
    pub(super) async fn read_from(&self, offset: u64, buffer: &mut ReadBuffer<'_>) -> Result<(), Errno> {
        if let Some(contents) = self.node.contents() {
            contents.read(offset, buffer);
            return Ok(());
        }
        let mount = &self.node.mount;
        mount.write_out(self.inode.ino).await?;
        match &self.cached {
            Some(cached) if (1..=MAX_READ).contains(&buffer.room()) => {
                self.read_pages(cached, offset, buffer).await
            }
            _ if buffer.room() == 0 && !self.node.is_directory() => Ok(()),
            _ => self.request_read(offset, buffer).await.map(drop),
        }
    }

    /// Reads from cached pages, and requests those that are missing.
    async fn read_pages(
        &self,
        cached: &CachedOpening<S>,
        offset: u64,
        buffer: &mut ReadBuffer<'_>,
    ) -> Result<(), Errno> {
        let count = cached.read(offset, buffer);
        if buffer.room() == 0 {
            return Ok(());
        }
        let rest = self.fetch(cached, offset.saturating_add(count as u64), buffer).await;
        // If the request fails, the call returns the bytes that were cached. The next call fails.
        if count > 0 { Ok(()) } else { rest }
    }

    /// Reads by a request for whole pages, and caches them.
    async fn fetch(
        &self,
        cached: &CachedOpening<S>,
        offset: u64,
        buffer: &mut ReadBuffer<'_>,
    ) -> Result<(), Errno> {
        let Some(mut fetch) = cached.begin_fetch(offset, buffer.room()) else {
            // There is no memory to cache the bytes.
            return self.request_read(offset, buffer).await.map(drop);
        };
        let requested = self.request_read(fetch.run.start(), &mut fetch.run).await?;
        fetch.run.note_requested(requested);
        let is_end = fetch.run.is_end();
        let count = fetch.run.copy_to(offset, buffer);
        cached.end_fetch(fetch);
        if is_end || buffer.room() == 0 {
            return Ok(());
        }
        // There is no memory for more pages, or one request cannot ask for all pages of the read.
        self.request_read(offset + count, buffer).await.map(drop)
    }

    /// Requests bytes from an offset on. Returns the number of bytes that were asked for.
    async fn request_read(&self, offset: u64, target: &mut dyn ReadTarget) -> Result<usize, Errno> {
        let file_system = self.node.file_system();
        let result = complete(|call| file_system.read(call, self.inode, offset, target)).await;
        // A read changes the time of the last read, so the cached attributes are outdated.
        self.node.mount.forget_attr(self.inode.ino);
        result
    }

    /// Writes at a position.
    pub(super) async fn write_from(&self, start: WriteAt, bytes: &[u8]) -> Result<Written, Errno> {
        if let Some(contents) = self.node.contents() {
            return poll_fn(|context| contents.poll_write(context, start, bytes)).await;
        }
        // Appended bytes come after all known ones.
        let offset = if let WriteAt::Offset(offset) = start { offset } else { u64::MAX };
        let written =
            self.node.mount.change_data(self.inode.ino, offset, self.write_to_server(start, bytes)).await;
        // The write is counted only after it is done. Otherwise a concurrent `fsync` could count this write
        // as one that it has made durable.
        self.writes.fetch_add(1, Relaxed);
        written
    }

    async fn write_to_server(&self, start: WriteAt, bytes: &[u8]) -> Result<Written, Errno> {
        let mount = &self.node.mount;
        if let (Some(write_back), Some(opening)) = (&mount.write_back, &self.opening) {
            return write_back.write(opening, start, bytes).await;
        }
        mount.write_out(self.inode.ino).await?;
        let written = complete(|call| self.node.file_system().write(call, self.inode, start, bytes)).await;
        mount.forget_attr(self.inode.ino);
        written
    }
}
