//! A ramfs whose names and attributes may be cached, as on a server outside of the machine.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::ops::ControlFlow;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use core::task::Poll;

use hermit_abi::{O_CREAT, O_WRONLY};
use hermit_interface::Errno;

use crate::impls::RamFs;
use crate::interface::file_system::{
    Call, Capabilities, EntriesPlus, Name, OpenInode, ReadTarget, RenameFlags, Reply, WriteAt, Written,
};
use crate::interface::{Attr, DirEntry, Entry, FileSystem, Ino, Lookup, SetAttr, StatFs};
use crate::testing::{TestSystem, run, vfs};
use crate::vfs::{OpenFile, OpenedPath, Symlinks, Vfs};

std::thread_local! {
    /// Called once, before a directory is read.
    pub(super) static BEFORE_READDIR: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
}

/// A ramfs whose replies are valid for a number of nanoseconds.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) ramfs: Arc<RamFs<TestSystem>>,
    pub(super) validity: u64,
    /// Number of lookups.
    pub(super) lookups: AtomicU64,
    /// Number of requests for attributes.
    pub(super) getattrs: AtomicU64,
    /// Number of inodes that were passed with entries.
    pub(super) listed: AtomicU64,
    /// Maximum size in bytes of collected writes.
    pub(super) write_back_size: AtomicUsize,
    /// True if writes stay pending.
    pub(super) hangs: AtomicBool,
}

impl Kept {
    pub(super) fn new(ramfs: Arc<RamFs<TestSystem>>, validity: u64) -> Arc<Self> {
        let [lookups, getattrs, listed] = [const { AtomicU64::new(0) }; 3];
        let (write_back_size, hangs) = (AtomicUsize::new(0), AtomicBool::new(false));
        Arc::new(Self { ramfs, validity, lookups, getattrs, listed, write_back_size, hangs })
    }

    /// Lookups and requests for attributes since the last call.
    pub(super) fn take_counts(&self) -> (u64, u64) {
        (self.lookups.swap(0, Relaxed), self.getattrs.swap(0, Relaxed))
    }

    fn attr(&self, attr: Attr) -> Attr {
        Attr { validity: self.validity, ..attr }
    }

    fn entry(&self, entry: Entry<TestSystem>) -> Entry<TestSystem> {
        Entry::new(self.attr(entry.attr), self.validity)
    }

    fn reply(&self, reply: Reply<Entry<TestSystem>>) -> Reply<Entry<TestSystem>> {
        reply.map_ok(|entry| self.entry(entry))
    }
}

impl FileSystem<TestSystem> for Kept {
    fn type_name(&self) -> &'static str {
        "kept"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::ATTR_VALIDITY | Capabilities::APPEND_CHANGES
    }

    fn lookup(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<Lookup<TestSystem>> {
        self.lookups.fetch_add(1, Relaxed);
        self.ramfs.lookup(call, entry).map(|found| match found {
            Ok(Lookup::Found(entry)) => Ok(Lookup::Found(self.entry(entry))),
            Ok(Lookup::Absent { .. }) | Err(Errno::ENOENT) => Ok(Lookup::Absent { validity: self.validity }),
            Err(error) => Err(error),
        })
    }

    fn forget(&self, ino: Ino, references: u64) {
        self.ramfs.forget(ino, references);
    }

    fn getattr(&self, call: &mut Call<'_, '_>, ino: Ino) -> Reply<Attr> {
        self.getattrs.fetch_add(1, Relaxed);
        self.ramfs.getattr(call, ino).map_ok(|attr| self.attr(attr))
    }

    fn setattr(&self, call: &mut Call<'_, '_>, ino: Ino, changes: &SetAttr) -> Reply<Attr> {
        self.ramfs.setattr(call, ino, changes).map_ok(|attr| self.attr(attr))
    }

    fn readlink(&self, call: &mut Call<'_, '_>, ino: Ino, target: &mut Vec<u8>) -> Reply<()> {
        self.ramfs.readlink(call, ino, target)
    }

    fn create(
        &self,
        call: &mut Call<'_, '_>,
        entry: Name<'_>,
        permissions: u32,
        flags: i32,
    ) -> Reply<(Entry<TestSystem>, u64)> {
        let created = self.ramfs.create(call, entry, permissions, flags);
        created.map_ok(|(entry, _)| (self.entry(entry), 0))
    }

    fn mkdir(&self, call: &mut Call<'_, '_>, entry: Name<'_>, permissions: u32) -> Reply<Entry<TestSystem>> {
        self.reply(self.ramfs.mkdir(call, entry, permissions))
    }

    fn symlink(&self, call: &mut Call<'_, '_>, entry: Name<'_>, target: &[u8]) -> Reply<Entry<TestSystem>> {
        self.reply(self.ramfs.symlink(call, entry, target))
    }

    fn link(&self, call: &mut Call<'_, '_>, ino: Ino, entry: Name<'_>) -> Reply<Entry<TestSystem>> {
        self.reply(self.ramfs.link(call, ino, entry))
    }

    fn unlink(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<()> {
        self.ramfs.unlink(call, entry)
    }

    fn rmdir(&self, call: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<()> {
        self.ramfs.rmdir(call, entry)
    }

    fn rename(&self, call: &mut Call<'_, '_>, from: Name<'_>, to: Name<'_>, flags: RenameFlags) -> Reply<()> {
        self.ramfs.rename(call, from, to, flags)
    }

    fn read(
        &self,
        call: &mut Call<'_, '_>,
        file: OpenInode,
        offset: u64,
        target: &mut dyn ReadTarget,
    ) -> Reply<usize> {
        self.ramfs.read(call, file, offset, target)
    }

    fn write(
        &self,
        call: &mut Call<'_, '_>,
        file: OpenInode,
        position: WriteAt,
        bytes: &[u8],
    ) -> Reply<Written> {
        if self.hangs.load(Relaxed) {
            return Poll::Pending;
        }
        self.ramfs.write(call, file, position, bytes)
    }

    fn readdir(
        &self,
        call: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Reply<()> {
        if let Some(action) = BEFORE_READDIR.take() {
            action();
        }
        self.ramfs.readdir(call, directory, position, entries)
    }

    fn readdir_plus(
        &self,
        call: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut EntriesPlus<'_, TestSystem>,
    ) -> Reply<()> {
        let mut found = Vec::new();
        let listed = self.ramfs.readdir(call, directory, position, &mut |entry| {
            found.push((entry.name.to_vec(), entry.number, entry.file_type, entry.next));
            ControlFlow::Continue(())
        });
        if let Some(action) = BEFORE_READDIR.take() {
            action();
        }
        for (name, number, file_type, next) in found {
            let name = name.as_slice();
            let Poll::Ready(inode) = self.ramfs.lookup(call, Name { parent: directory.ino, name }) else {
                panic!("a ramfs does not wait")
            };
            let inode = inode.and_then(Lookup::found).ok().map(|inode| self.entry(inode));
            self.listed.fetch_add(inode.iter().count() as u64, Relaxed);
            if entries(DirEntry { number, file_type, name, next }, inode).is_break() {
                break;
            }
        }
        listed
    }

    fn write_back_size(&self, _: u64, _: i32) -> usize {
        self.write_back_size.load(Relaxed)
    }

    fn statfs(&self, call: &mut Call<'_, '_>) -> Reply<StatFs> {
        self.ramfs.statfs(call)
    }
}

/// Creates a virtual file system with a mounted folder of a host, and the host. The host changes the folder
/// without notifying the machine.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) host: Vfs<TestSystem>,
    pub(super) folder: Arc<Kept>,
    pub(super) guest: Vfs<TestSystem>,
}

impl Shared {
    pub(super) fn new(validity: u64) -> Self {
        let ramfs = Arc::new(RamFs::new(1 << 25).unwrap());
        // The host's names are not cached, since the guest changes them, too.
        let host = Vfs::new(Kept::new(Arc::clone(&ramfs), 0)).unwrap();
        let folder = Kept::new(ramfs, validity);
        let (_, guest) = vfs(1 << 20);
        run(guest.create_directory(b"/m", 0o755)).unwrap();
        run(guest.mount(folder.clone(), b"/m", false)).unwrap();
        Self { host, folder, guest }
    }

    /// Size of a file as the guest sees it.
    pub(super) fn size(&self, path: &str) -> Result<u64, Errno> {
        run(self.guest.metadata(path.as_bytes(), Symlinks::Keep)).map(|metadata| metadata.attr.size)
    }
}

pub(super) fn open(vfs: &Vfs<TestSystem>, path: &str) -> Arc<OpenFile<TestSystem>> {
    match run(vfs.open(path.as_bytes(), O_CREAT | O_WRONLY, 0o666)) {
        Ok(OpenedPath::File(file)) => file,
        other => panic!("{path}: {other:?}"),
    }
}

pub(super) fn append(vfs: &Vfs<TestSystem>, path: &str) {
    let file = open(vfs, path);
    let size = run(file.metadata()).unwrap().attr.size;
    assert_eq!(run(file.write_at(size, b"x")), Ok(1));
}
