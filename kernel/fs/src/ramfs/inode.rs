//! An inode of a ramfs.

use alloc::boxed::Box;

use hermit_abi::file_properties;
use hermit_interface::{Errno, to_usize};

use super::directory::Directory;
use super::pages::{PAGE_BYTES, SparsePages};
use crate::async_mutex::AsyncMutex;
use crate::system::BLOCK_SIZE;
use crate::{Attr, FileType, Ino, PageWindow, SetTime, System, Time};

/// What an entry of a directory adds to the size of the directory.
const ENTRY_SIZE: u64 = 20;

/// An inode.
#[derive(Debug)]
pub(super) struct Inode<S: System> {
    pub(super) permissions: u32,
    pub(super) nlink: u32,
    /// References of the file system's user.
    pub(super) references: u64,
    pub(super) times: Times,
    pub(super) body: Body<S>,
}

/// A tick that does not come: those are smaller numbers.
const NEVER: u64 = u64::MAX;

/// Times of an inode.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    atime: Time,
    mtime: Time,
    ctime: Time,
    btime: Time,
    /// Whether the next read changes the time of the last read: only the first since the last change does, as
    /// with Linux's `relatime`.
    pub(super) is_unread: bool,
    /// The [tick](crate::System::tick) of the last write, if a write at the same one leaves the times as they
    /// are; else [`NEVER`].
    pub(super) written_at: u64,
}

/// What an inode is.
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

    /// What the body counts towards the limit of the file system, in bytes.
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
    /// Contents below the pages, which a hole shows: memory that is never changed. They end within the size.
    pub(super) base: &'static [u8],
    /// Writers that change more than one page, one at a time. The lock of the inode is not held all the
    /// while.
    pub(super) writers: AsyncMutex,
    /// The window that a page is lent to.
    pub(super) window: Option<&'static PageWindow<S>>,
}

impl<S: System> Inode<S> {
    /// An inode with one name and one reference.
    pub(super) const fn new(body: Body<S>, permissions: u32, now: Time) -> Self {
        let nlink = if matches!(body, Body::Directory(_)) { 2 } else { 1 };
        let times =
            Times { atime: now, mtime: now, ctime: now, btime: now, is_unread: true, written_at: NEVER };
        Self { permissions, nlink, references: 1, times, body }
    }

    pub(super) const fn file_type(&self) -> FileType {
        self.body.file_type()
    }

    /// Whether neither a name nor a reference is left.
    pub(super) const fn is_unused(&self) -> bool {
        self.nlink == 0 && self.references == 0
    }

    /// Size and allocated space, in bytes.
    #[inline]
    const fn sizes(&self) -> (u64, u64) {
        match &self.body {
            Body::File(file) => (file.size, file.allocated()),
            Body::Directory(directory) => (directory.len() * ENTRY_SIZE, 0),
            Body::Symlink(target) => (target.len() as u64, 0),
        }
    }

    /// What [`Metadata`](crate::Metadata) of the [attributes](Self::attr) would give, without a copy of
    /// these.
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

    /// Takes back the page of a regular file that is lent, before anything of the file or its times is used.
    #[inline(always)]
    pub(super) fn take_back_page(&mut self) {
        if let Body::File(file) = &mut self.body {
            file.take_back_page();
        }
    }

    /// The contents of a regular file.
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

    /// The entries of a directory.
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

    /// The entries of a directory to which one may be added.
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
    /// A file with these contents, which stay where they are until they are written.
    pub(super) const fn new(base: &'static [u8]) -> Self {
        Self {
            size: base.len() as u64,
            pages: SparsePages::new(),
            base,
            writers: AsyncMutex::new(),
            window: None,
        }
    }

    /// Allocated bytes, the contents below the pages among them.
    const fn allocated(&self) -> u64 {
        self.pages.count().pages * PAGE_BYTES + (self.base.len() as u64).next_multiple_of(512)
    }

    /// Takes the page that is lent back to its place.
    #[inline(always)]
    pub(super) fn take_back_page(&mut self) {
        if let Some((start, page)) = self.window.take().and_then(PageWindow::take) {
            self.pages.put(start / PAGE_BYTES, page);
        }
    }

    /// What a hole shows from an offset on: at least a byte of the base, or nothing behind its end.
    #[inline]
    pub(super) fn below(&self, offset: u64) -> &'static [u8] {
        self.base.get(to_usize(offset)..).unwrap_or_default()
    }
}

impl Times {
    /// The time of a change, from one that was taken before the inode was locked: another change may have
    /// come first, and the times do not step back behind that one. If they are ahead by more, the clock was
    /// set back.
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

    /// Records a change of the inode without its contents.
    #[inline(always)]
    pub(super) fn changed(&mut self, now: Time) {
        let now = self.time_of_change(now);
        self.ctime = now;
        self.is_unread |= self.atime <= now;
    }

    /// Records what an archive says of the last change.
    pub(super) fn unpacked(&mut self, modified: Time) {
        (self.mtime, self.atime) = (modified, modified);
        self.update_is_unread();
    }

    /// Records a write, at a tick and a time.
    #[inline]
    pub(super) fn written(&mut self, tick: u64, now: Time) {
        self.modified(now);
        self.written_at = tick;
    }

    /// Records a read. A later write has a later time.
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
        // So far back, the clock was set.
        inode.times.modified(time(2, 0));
        assert_eq!(inode.times.mtime, time(2, 0));
        // A time that a program has set is not kept.
        inode.times.set(None, Some(SetTime::To(time(100, 0))), time(3, 0));
        inode.times.modified(time(3, 1));
        assert_eq!(inode.times.mtime, time(3, 1));
    }
}
