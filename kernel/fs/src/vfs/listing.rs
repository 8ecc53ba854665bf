//! Listings of directories, with the inodes of their entries where a server says these along with the names: a program that looks
//! at what it lists then needs no request for each name.
//!
//! A server has more work with that. So it is asked after a file was looked up, and as long as the files of a listing are used.

use alloc::sync::Arc;
use core::ops::ControlFlow;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::Relaxed;

use hermit_interface::Errno;

use super::attr_cache::AttrRequest;
use super::mount::Node;
use super::name_cache::{Listed, ListingStart};
use super::open_file::OpenNode;
use super::{OpenFile, Vfs};
use crate::{DirEntry, Entry, System};

/// Number of listings with inodes that the use of one such inode leads to.
const LISTINGS: u32 = 4;

/// Number of inodes for which there is no room, after which a listing goes on without them.
const MAX_REFUSED: u32 = 32;

/// A number of listings: inodes are not asked for any more, since they may not be kept.
const NEVER: u32 = u32::MAX;

/// Whether listings of a mount ask for inodes.
#[derive(Debug)]
pub(super) struct Listings {
    /// How many of the next ones do.
    count: AtomicU32,
    /// Number of inodes since the last change of that number for which there was no room.
    refused: AtomicU32,
}

impl Listings {
    pub(super) const fn new() -> Self {
        Self { count: AtomicU32::new(0), refused: AtomicU32::new(0) }
    }

    fn change(&self, change: impl Fn(u32) -> u32) {
        let unless_never = |count| (count != NEVER).then(|| change(count));
        // An error means that there is nothing to change.
        let _: Result<u32, u32> = self.count.fetch_update(Relaxed, Relaxed, unless_never);
        self.refused.store(0, Relaxed);
    }

    /// Notes that a file was asked for: the next listing is a try.
    pub(super) fn note_request(&self) {
        if self.count.load(Relaxed) == 0 {
            self.change(|count| count.max(1));
        }
    }

    /// Notes that a file of a listing was used.
    pub(super) fn note_use(&self) {
        self.change(|_| LISTINGS);
    }

    /// Notes that a directory was read to its end.
    fn note_end(&self) {
        self.change(|count| count.saturating_sub(1));
    }

    /// Notes that there was no room for an inode.
    fn note_refused(&self) {
        if self.refused.fetch_add(1, Relaxed) >= MAX_REFUSED {
            self.change(|_| 0);
        }
    }

    /// Notes that inodes may not be kept.
    fn stop_for_ever(&self) {
        self.count.store(NEVER, Relaxed);
    }

    fn ask(&self) -> bool {
        !matches!(self.count.load(Relaxed), 0 | NEVER)
    }
}

impl<S: System> Vfs<S> {
    /// [`OpenFile::read_directory`], which keeps the inodes that the file system passes with the entries.
    ///
    /// # Errors
    ///
    /// As [`OpenFile::read_directory`].
    pub async fn read_directory(
        &self,
        file: &OpenFile<S>,
        mut entries: impl FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        let OpenNode::Shared(directory) = file.node() else { return Err(Errno::ENOTDIR) };
        let mount = &directory.mount;
        let (true, Some(attrs)) = (mount.listings.ask(), mount.attrs()) else {
            return file.read_directory(entries).await;
        };
        let (start, request) = (self.names.start_listing(), attrs.request());
        // Once: the call behind the last entry has none.
        let (mut is_whole, mut is_full) = (false, false);
        let take = |entry: DirEntry<'_>, inode: Option<Entry>| {
            is_full = !mount.listings.ask();
            if let Some(inode) = inode {
                self.keep_listed(start, (directory, entry.name), &inode, request);
            }
            let result = if is_full { ControlFlow::Break(()) } else { entries(entry) };
            is_whole = result.is_continue();
            result
        };
        file.read_entries(true, take).await?;
        if is_full {
            return file.read_directory(entries).await;
        }
        if is_whole {
            mount.listings.note_end();
        }
        Ok(())
    }

    /// Keeps a name of a listing with its inode and attributes, and takes over the reference.
    fn keep_listed(
        &self,
        start: ListingStart,
        (directory, name): (&Arc<Node<S>>, &[u8]),
        inode: &Entry,
        request: AttrRequest,
    ) {
        let (mount, ino) = (&directory.mount, inode.attr.ino);
        if inode.validity == 0 {
            mount.listings.stop_for_ever();
        }
        // Without a node, which would take the attributes along that are kept already.
        if inode.validity == 0 || self.names.is_kept(start, directory, name) {
            return mount.file_system.forget(ino, 1);
        }
        // Without memory, the reference is dropped.
        let Ok(node) = directory.of_child(inode) else { return };
        let kept = self.names.insert_listed(start, (directory, name), Arc::clone(&node), inode.validity);
        if kept == Listed::NoRoom {
            return mount.listings.note_refused();
        }
        // The node is still referred to here, if nowhere else.
        if let Some(attrs) = mount.attrs()
            && !mount.has_collected(node.ino)
        {
            attrs.insert(request, &inode.attr);
        }
    }
}
