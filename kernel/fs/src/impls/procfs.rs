//! The file system of facts about the machine and the process (`/proc`). It has only files whose contents
//! this kernel knows.

mod facts;
mod nodes;
mod text;
mod text_file;

use alloc::vec::Vec;
use core::fmt::Debug;
use core::ops::ControlFlow;
use core::task::Poll;

use hermit_base::try_alloc::try_extend;
use hermit_interface::Errno;
use hermit_io::ACCESS_MODE;

use crate::interface::DescriptorTarget;
use crate::interface::file_system::{Call, Capabilities, Name, OpenInode, Opened, ReadTarget, Reply};
use crate::interface::system::BLOCK_SIZE;
use crate::interface::types::FOREVER;
use crate::interface::{Attr, DirEntry, Entry, FileSystem, FileType, Ino, Lookup, StatFs, System, Time};
pub use facts::{Facts, Mapping, MappingKind};
use nodes::{Content, FD, Inode, NODES, Node, Write};
use text::Text;
use text_file::TextFile;

/// The file system of facts.
#[derive(Debug)]
pub struct ProcFs<S, F> {
    facts: F,
    mounted: Time,
    system: core::marker::PhantomData<S>,
}

impl<S: System, F: Facts> ProcFs<S, F> {
    /// Creates the file system. All times of its files are the time of the mount.
    pub fn new(facts: F) -> Self {
        Self { facts, mounted: S::now(), system: core::marker::PhantomData }
    }

    /// Returns the inode with a number. The link of a descriptor exists only while the descriptor is open.
    fn inode(&self, ino: Ino) -> Result<Inode, Errno> {
        let inode = Inode::of(ino)?;
        match inode {
            Inode::Descriptor(number) if !self.facts.is_open(number) => Err(Errno::ENOENT),
            _ => Ok(inode),
        }
    }

    fn attr(&self, ino: Ino) -> Result<Attr, Errno> {
        let file_type = self.inode(ino)?.file_type();
        let (permissions, nlink) = match file_type {
            FileType::Directory => (0o555, 2),
            FileType::Symlink => (0o777, 1),
            _ => (0o444, 1),
        };
        Ok(Attr::of_empty(ino, file_type.mode() | permissions, nlink, self.mounted))
    }

    fn find(&self, entry: Name<'_>) -> Result<Entry<S>, Errno> {
        let directory = self.inode(entry.parent)?.directory()?;
        let is_sought = |node: &Node| node.parent == directory && node.name.as_bytes() == entry.name;
        let inode = match entry.name {
            b".." => NODES.get(directory).map(|node| Inode::Node(node.parent)),
            name if directory == FD => nodes::descriptor(name).map(Inode::Descriptor),
            _ => NODES.iter().position(is_sought).map(Inode::Node),
        };
        let inode = inode.ok_or(Errno::ENOENT)?;
        // A descriptor may be closed at any time. All other names are always there.
        let validity = if matches!(inode, Inode::Descriptor(_)) { 0 } else { FOREVER };
        Ok(Entry::new(self.attr(inode.ino())?, validity))
    }

    fn entries(
        &self,
        directory: Ino,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        let directory = self.inode(directory)?.directory()?;
        if directory == FD {
            nodes::list_descriptors(position, |from| self.facts.next_descriptor(from), entries);
        } else {
            nodes::list(directory, position, entries);
        }
        Ok(())
    }

    fn write(&self, write: Write) -> Result<Vec<u8>, Errno> {
        Text::written(|text| write(&self.facts, S::now(), text))
    }

    fn open_text(&self, ino: Ino, flags: i32) -> Result<Opened, Errno> {
        match self.inode(ino)?.content() {
            Some(Content::Text(_)) if flags & ACCESS_MODE != 0 => Err(Errno::EACCES),
            Some(Content::Text(write)) => {
                let file = S::arc(TextFile::new(self.write(*write)?)).ok_or(Errno::ENOMEM)?;
                Ok(Opened::Object(file))
            }
            _ => Ok(Opened::Inode(0)),
        }
    }

    /// The target of a symbolic link.
    fn target(&self, ino: Ino) -> Result<Vec<u8>, Errno> {
        let inode = self.inode(ino)?;
        match (inode, inode.content()) {
            (Inode::Descriptor(number), _) => match self.facts.descriptor(number)? {
                DescriptorTarget::Path(path) => Ok(path),
                DescriptorTarget::Numbered(name, number) => text::numbered(name, number),
            },
            (_, Some(Content::Link(write))) => self.write(*write),
            (_, Some(Content::CurrentDirectory)) => self.facts.current_directory(),
            _ => Err(Errno::EINVAL),
        }
    }
}

impl<S: System, F: Facts> FileSystem<S> for ProcFs<S, F>
where
    S: Debug,
{
    fn type_name(&self) -> &'static str {
        "proc"
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::FINDS_PARENTS | Capabilities::APPEND_CHANGES | Capabilities::IMMEDIATE
    }

    fn lookup(&self, _: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<Lookup<S>> {
        Poll::Ready(self.find(entry).map(Lookup::Found))
    }

    fn forget(&self, _ino: Ino, _references: u64) {}

    fn getattr(&self, _: &mut Call<'_, '_>, ino: Ino) -> Reply<Attr> {
        Poll::Ready(self.attr(ino))
    }

    fn readlink(&self, _: &mut Call<'_, '_>, ino: Ino, target: &mut Vec<u8>) -> Reply<()> {
        Poll::Ready(self.target(ino).and_then(|text| Ok(try_extend(target, &text)?)))
    }

    fn open(&self, _: &mut Call<'_, '_>, ino: Ino, flags: i32) -> Reply<Opened> {
        Poll::Ready(self.open_text(ino, flags))
    }

    fn read(&self, _: &mut Call<'_, '_>, _: OpenInode, _: u64, _: &mut dyn ReadTarget) -> Reply<usize> {
        // Only directories are opened as inodes; files are opened as objects.
        Poll::Ready(Err(Errno::EISDIR))
    }

    fn readdir(
        &self,
        _: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Reply<()> {
        Poll::Ready(self.entries(directory.ino, position, entries))
    }

    fn statfs(&self, _: &mut Call<'_, '_>) -> Reply<StatFs> {
        Poll::Ready(Ok(StatFs { block_size: BLOCK_SIZE, ..StatFs::default() }))
    }
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests;
