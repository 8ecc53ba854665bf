//! Reads directories. If a server passes the inodes of entries along with the names, both are cached. A
//! program that then looks at the listed files causes no further requests.

use alloc::sync::Arc;
use core::ops::ControlFlow;

use hermit_interface::Errno;

use super::attr_cache::AttrRequest;
use super::name_cache::{Listed, ListingStart, NameCache};
use super::node::Node;
use super::{OpenFile, Vfs};
use crate::interface::{DirEntry, Entry, System};

impl<S: System> Vfs<S> {
    /// Reads entries as [`OpenFile::read_directory`], and caches the inodes that the file system passes with
    /// them.
    ///
    /// # Errors
    ///
    /// As [`OpenFile::read_directory`].
    pub async fn read_directory(
        &self,
        file: &OpenFile<S>,
        mut entries: impl FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        let directory = file.node();
        let mount = &directory.mount;
        let (true, Some(attrs)) = (mount.listings.ask(), mount.attrs()) else {
            return file.read_directory(entries).await;
        };
        let (start, request) = (NameCache::start_listing(directory), attrs.request());
        // The end of the directory is noted only once: in the call that reads the last entries. The call
        // after it reads no entries, so `is_whole` stays false.
        let (mut is_whole, mut is_full) = (false, false);
        let take = |entry: DirEntry<'_>, inode: Option<Entry<S>>| {
            is_full = !mount.listings.ask();
            if let Some(inode) = inode {
                self.keep_listed(start, (directory, entry.name), inode, request);
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

    /// Caches a name of a listing with its inode and attributes. Takes over the reference to the inode.
    fn keep_listed(
        &self,
        start: ListingStart,
        (directory, name): (&Arc<Node<S>>, &[u8]),
        inode: Entry<S>,
        request: AttrRequest,
    ) {
        let (mount, attr, validity) = (&directory.mount, inode.attr, inode.validity);
        if validity == 0 {
            mount.listings.stop_for_ever();
        }
        // This path must not create a node: the drop of the node would remove the attributes that are already
        // cached.
        if validity == 0 || self.names.is_kept(start, directory, name) {
            return mount.file_system.forget(attr.ino, 1);
        }
        // Without memory, `of_child` has dropped the reference.
        let Ok(node) = directory.of_child(inode) else { return };
        let kept = self.names.insert_listed(start, (directory, name), Arc::clone(&node), validity);
        if kept == Listed::NoRoom {
            return mount.listings.note_refused();
        }
        // The node still holds a reference here, even if the name was not cached.
        if let Some(attrs) = mount.attrs()
            && !mount.has_collected(node.ino)
        {
            attrs.insert(request, &attr);
        }
    }
}
