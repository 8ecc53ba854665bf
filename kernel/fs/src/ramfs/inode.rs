//! An inode of a ramfs: attributes, times, and a body that depends on the type.
//!
//! Reading the clock is not enough to set the times. Two CPUs may read the clock in one order and lock the
//! inode in the other order, so a change must not move the times back a little ([`Times`]). Writes within the
//! same tick keep the time of the first write, and only the first read after a change sets the time of the
//! last read. The fast paths rely on this: they are used only if no time would change.

use alloc::boxed::Box;

use hermit_abi::file_properties;
use hermit_interface::{Errno, to_usize};

use super::directory::Directory;
use super::pages::{PAGE_BYTES, SparsePages};
use crate::async_mutex::AsyncMutex;
use crate::system::BLOCK_SIZE;
use crate::{Attr, FileType, Ino, PageWindow, SetTime, System, Time};

/// Size that an entry adds to its directory (`st_size`).
const ENTRY_SIZE: u64 = 20;

/// An inode.
#[derive(Debug)]
pub(super) struct Inode<S: System> {
    pub(super) permissions: u32,
    pub(super) nlink: u32,
    /// Number of references that users of the file system have.
    pub(super) references: u64,
    pub(super) times: Times,
    pub(super) body: Body<S>,
}

/// A tick that never occurs: real ticks are smaller.
const NEVER: u64 = u64::MAX;

/// Times of an inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    atime: Time,
    mtime: Time,
    ctime: Time,
    btime: Time,
    /// True if the next read changes the time of the last read. Only the first read after a change does so,
    /// as with Linux's `relatime`.
    pub(super) is_unread: bool,
    /// The [tick](crate::System::tick) of the last write, if another write at the same tick would not change
    /// the times. Otherwise [`NEVER`].
    pub(super) written_at: u64,
}

/// Contents of an inode, by its type.
#[derive(Debug)]
pub(super) enum Body<S: System> {
    File(File<S>),
    Directory(Directory),
    Symlink(Box<[u8]>),
}

impl<S: System> Body<S> {
    pub(super) const fn file_type(&self) -> FileType {
        match self {
            Self::File(_) => FileType::Regular,
            Self::Directory(_) => FileType::Directory,
            Self::Symlink(_) => FileType::Symlink,
        }
    }

    /// Returns the number of bytes that the body uses of the file system's limit.
    pub(super) const fn charged(&self) -> u64 {
        match self {
            Self::File(file) => file.pages.count().size(),
            Self::Directory(_) => 0,
            Self::Symlink(target) => target.len() as u64,
        }
    }
}

/// Contents of a regular file.
#[derive(Debug)]
pub(super) struct File<S: System> {
    pub(super) size: u64,
    pub(super) pages: SparsePages<S::Page>,
    /// Contents that are visible where the file has no pages. This memory never changes, and is not longer
    /// than the file.
    pub(super) base: &'static [u8],
    /// Serialises writers that change more than one page. The lock of the inode is not enough, since it is
    /// released between two pages.
    pub(super) writers: AsyncMutex,
    /// The window to which a page of this file is lent.
    pub(super) window: Option<&'static PageWindow<S>>,
}

impl<S: System> Inode<S> {
    /// Creates an inode with one name and one reference.
    pub(super) const fn new(body: Body<S>, permissions: u32, now: Time) -> Self {
        let nlink = if matches!(body, Body::Directory(_)) { 2 } else { 1 };
        let times =
            Times { atime: now, mtime: now, ctime: now, btime: now, is_unread: true, written_at: NEVER };
        Self { permissions, nlink, references: 1, times, body }
    }

    pub(super) const fn file_type(&self) -> FileType {
        self.body.file_type()
    }

    /// Returns true if the inode has neither a name nor a reference.
    pub(super) const fn is_unused(&self) -> bool {
        self.nlink == 0 && self.references == 0
    }

    /// Returns the size and the allocated space in bytes.
    #[inline]
    const fn sizes(&self) -> (u64, u64) {
        match &self.body {
            Body::File(file) => (file.size, file.allocated()),
            Body::Directory(directory) => (directory.len() * ENTRY_SIZE, 0),
            Body::Symlink(target) => (target.len() as u64, 0),
        }
    }

    /// Returns the properties in the format that programs see, as [`Metadata`](crate::Metadata) converts them
    /// from the [attributes](Self::attr), but without an intermediate copy of the attributes.
    #[inline]
    pub(super) const fn properties(&self, ino: Ino, device: u64) -> file_properties {
        let (size, allocated) = self.sizes();
        let Times { atime, mtime, ctime, btime, .. } = self.times;
        file_properties {
            ino: ino.0,
            dev: device,
            size,
            blocks: allocated / 512,
            atime: atime.seconds,
            mtime: mtime.seconds,
            ctime: ctime.seconds,
            btime: btime.seconds,
            atime_nsec: atime.nanoseconds,
            mtime_nsec: mtime.nanoseconds,
            ctime_nsec: ctime.nanoseconds,
            btime_nsec: btime.nanoseconds,
            mode: self.file_type().mode() | self.permissions,
            nlink: self.nlink,
            uid: 0,
            gid: 0,
            blksize: BLOCK_SIZE,
            __reserved: 0,
        }
    }

    pub(super) const fn attr(&self, ino: Ino) -> Attr {
        let (size, allocated) = self.sizes();
        let Times { atime, mtime, ctime, btime, .. } = self.times;
        Attr {
            ino,
            number: ino.0,
            mode: self.file_type().mode() | self.permissions,
            nlink: self.nlink,
            uid: 0,
            gid: 0,
            size,
            blocks: allocated / 512,
            block_size: BLOCK_SIZE,
            atime,
            mtime,
            ctime,
            btime,
            validity: 0,
        }
    }

    /// Takes back the lent page of a regular file. Must be called before any use of the file or its times.
    #[inline(always)]
    pub(super) fn take_back_page(&mut self) {
        if let Body::File(file) = &mut self.body {
            file.take_back_page();
        }
    }

    /// Returns the contents and the times of a regular file.
    ///
    /// # Errors
    ///
    /// `EISDIR` for a directory, `EINVAL` for a symbolic link.
    #[inline]
    pub(super) const fn file(&mut self) -> Result<(&mut File<S>, &mut Times), Errno> {
        match &mut self.body {
            Body::File(file) => Ok((file, &mut self.times)),
            Body::Directory(_) => Err(Errno::EISDIR),
            Body::Symlink(_) => Err(Errno::EINVAL),
        }
    }

    /// Returns the entries of a directory.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`.
    pub(super) const fn directory(&mut self) -> Result<&mut Directory, Errno> {
        match &mut self.body {
            Body::Directory(directory) => Ok(directory),
            Body::File(_) | Body::Symlink(_) => Err(Errno::ENOTDIR),
        }
    }

    /// Returns the entries of a directory, to which the caller wants to add an entry.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`, `ENOENT` if the directory was removed.
    pub(super) const fn existing_directory(&mut self) -> Result<&mut Directory, Errno> {
        if self.nlink == 0 {
            return Err(Errno::ENOENT);
        }
        self.directory()
    }
}

impl<S: System> File<S> {
    /// Creates a file with these contents. They are not copied until they are written.
    pub(super) const fn new(base: &'static [u8]) -> Self {
        Self {
            size: base.len() as u64,
            pages: SparsePages::new(),
            base,
            writers: AsyncMutex::new(),
            window: None,
        }
    }

    /// Returns the number of allocated bytes, including the contents below the pages.
    const fn allocated(&self) -> u64 {
        self.pages.count().pages * PAGE_BYTES + (self.base.len() as u64).next_multiple_of(512)
    }

    /// Returns the lent page to its place in the file.
    #[inline(always)]
    pub(super) fn take_back_page(&mut self) {
        if let Some((start, page)) = self.window.take().and_then(PageWindow::take) {
            self.pages.put(start / PAGE_BYTES, page);
        }
    }

    /// Returns the contents of the base from an offset on. The result is empty only after the end of the
    /// base.
    #[inline]
    pub(super) fn below(&self, offset: u64) -> &'static [u8] {
        self.base.get(to_usize(offset)..).unwrap_or_default()
    }
}

impl Times {
    /// Returns the time to record for a change. `now` was read before the inode was locked, so another change
    /// may have recorded a later time meanwhile. Then this recorded time is returned again, so that times do
    /// not go back. But if the recorded time is more than about a second later, the clock was set back, and
    /// `now` is returned.
    #[inline]
    fn time_of_change(&self, now: Time) -> Time {
        let is_overtaken = now < self.ctime && self.ctime.seconds - now.seconds <= 1;
        if is_overtaken { self.ctime } else { now }
    }

    /// Records a change of the contents.
    #[inline(always)]
    pub(super) fn modified(&mut self, now: Time) {
        let now = self.time_of_change(now);
        self.mtime = now;
        self.ctime = now;
        self.is_unread = self.atime <= now;
    }

    /// Records a change of the inode, but not of its contents.
    #[inline(always)]
    pub(super) fn changed(&mut self, now: Time) {
        let now = self.time_of_change(now);
        self.ctime = now;
        self.is_unread |= self.atime <= now;
    }

    /// Sets the times of a file from an archive to the time of the file's last change.
    pub(super) fn unpacked(&mut self, modified: Time) {
        (self.mtime, self.atime) = (modified, modified);
        self.update_is_unread();
    }

    /// Records a write at the given tick and time.
    #[inline]
    pub(super) fn written(&mut self, tick: u64, now: Time) {
        self.modified(now);
        self.written_at = tick;
    }

    /// Records a read. The next write must record its own, later time, so `written_at` is reset.
    pub(super) fn read(&mut self, now: Time) {
        self.atime = now;
        self.written_at = NEVER;
        self.update_is_unread();
    }

    pub(super) fn set(&mut self, atime: Option<SetTime>, mtime: Option<SetTime>, now: Time) {
        let now = self.time_of_change(now);
        let value = |time| match time {
            SetTime::Now => now,
            SetTime::To(time) => time,
        };
        self.atime = atime.map_or(self.atime, value);
        self.mtime = mtime.map_or(self.mtime, value);
        self.ctime = now;
        self.written_at = NEVER;
        self.update_is_unread();
    }

    fn update_is_unread(&mut self) {
        self.is_unread = self.atime <= self.mtime || self.atime <= self.ctime;
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::{Body, File, Inode};
    use crate::testing::TestSystem;
    use crate::{SetTime, Time};

    const fn time(seconds: i64, nanoseconds: u32) -> Time {
        Time { seconds, nanoseconds }
    }

    #[test]
    fn times_do_not_step_back_between_two_writers() {
        let mut inode: Inode<TestSystem> = Inode::new(Body::File(File::new(&[])), 0o644, time(5, 0));
        let mut modified = |now| {
            inode.times.modified(now);
            inode.times.mtime
        };
        assert_eq!((modified(time(6, 7)), modified(time(6, 5))), (time(6, 7), time(6, 7)));
        inode.times.changed(time(6, 6));
        assert_eq!(inode.times.ctime, time(6, 7));
        inode.times.set(None, None, time(6, 6));
        assert_eq!(inode.times.ctime, time(6, 7));
        // The difference is so large that the clock must have been set back.
        inode.times.modified(time(2, 0));
        assert_eq!(inode.times.mtime, time(2, 0));
        // The next change replaces a time that a program has set, even one in the future.
        inode.times.set(None, Some(SetTime::To(time(100, 0))), time(3, 0));
        inode.times.modified(time(3, 1));
        assert_eq!(inode.times.mtime, time(3, 1));
    }
}
