//! The file system of facts about the machine and the process: what `/proc` has on Linux, as far as it is known.

mod text;
mod text_file;

use alloc::vec::Vec;
use core::fmt::{self, Debug};
use core::ops::ControlFlow;
use core::task::Poll;

use hermit_interface::{Errno, to_usize};
use hermit_io::{ACCESS_MODE, ReadBuffer};

use crate::file_system::{Call, Name, OpenInode, Opened, Reply};
use crate::system::BLOCK_SIZE;
use crate::{Attr, DirEntry, Entry, FileSystem, FileType, Ino, Lookup, StatFs, System, Time};
use text::Text;
use text_file::TextFile;

/// What the kernel knows.
pub trait Facts: Debug + Send + Sync {
    /// Number of CPUs.
    fn cpus(&self) -> u32;

    /// Memory of the machine, and how much of it is free, in bytes.
    fn memory(&self) -> (u64, u64);

    /// Time since the start of the machine in nanoseconds.
    fn uptime_ns(&self) -> u64;

    /// Calls `add` with the name of the program and its arguments.
    fn arguments(&self, add: &mut dyn FnMut(&[u8]));

    /// Calls `add` with the variables of the environment, as `NAME=VALUE`.
    fn environment(&self, add: &mut dyn FnMut(&[u8]));

    /// Calls `add` with the path and the type of each mounted file system, and whether it is mounted for reading only.
    fn mounts(&self, add: &mut dyn FnMut(&str, &str, bool));
}

/// Writes a text.
type Write = fn(&dyn Facts, Time, &mut Text) -> fmt::Result;

/// A file.
struct Node {
    name: &'static str,
    /// Index of the directory.
    parent: usize,
    content: Content,
}

enum Content {
    Directory,
    /// A text, which is written when the file is opened.
    Text(Write),
    /// A symbolic link, whose target is such a text.
    Link(Write),
}

/// Index of the directory of the process.
const PROCESS: usize = 1;

const fn text(name: &'static str, parent: usize, write: Write) -> Node {
    Node { name, parent, content: Content::Text(write) }
}

const fn link(name: &'static str, parent: usize, write: Write) -> Node {
    Node { name, parent, content: Content::Link(write) }
}

/// All files; the first one is the root.
static NODES: [Node; 19] = [
    Node { name: "", parent: 0, content: Content::Directory },
    // The only process.
    Node { name: "1", parent: 0, content: Content::Directory },
    text("cpuinfo", 0, text::cpuinfo),
    text("filesystems", 0, text::filesystems),
    text("loadavg", 0, text::loadavg),
    text("meminfo", 0, text::meminfo),
    link("mounts", 0, |_, _, text| text.add("self/mounts")),
    link("self", 0, |_, _, text| text.add("1")),
    text("stat", 0, text::stat),
    text("uptime", 0, text::uptime),
    text("version", 0, text::version),
    text("cmdline", PROCESS, text::cmdline),
    text("comm", PROCESS, text::comm),
    text("environ", PROCESS, text::environ),
    link("exe", PROCESS, text::exe),
    text("mounts", PROCESS, text::mounts),
    text("stat", PROCESS, text::process_stat),
    text("statm", PROCESS, text::process_statm),
    text("status", PROCESS, text::process_status),
];

/// The inode of a file.
const fn ino(index: usize) -> Ino {
    Ino(Ino::ROOT.0 + index as u64)
}

impl Node {
    const fn file_type(&self) -> FileType {
        match self.content {
            Content::Directory => FileType::Directory,
            Content::Text(_) => FileType::Regular,
            Content::Link(_) => FileType::Symlink,
        }
    }
}

/// The file system of facts.
#[derive(Debug)]
pub struct ProcFs<S, F> {
    facts: F,
    mounted: Time,
    system: core::marker::PhantomData<S>,
}

impl<S: System, F: Facts> ProcFs<S, F> {
    /// The file system of these facts; all files have the time of the mount.
    pub fn new(facts: F) -> Self {
        Self { facts, mounted: S::now(), system: core::marker::PhantomData }
    }

    fn node(ino: Ino) -> Result<(usize, &'static Node), Errno> {
        let index = to_usize(ino.0.wrapping_sub(Ino::ROOT.0));
        NODES.get(index).map(|node| (index, node)).ok_or(Errno::ENOENT)
    }

    fn attr(&self, ino: Ino) -> Result<Attr, Errno> {
        let (_, node) = Self::node(ino)?;
        let (permissions, nlink) = match node.content {
            Content::Directory => (0o555, 2),
            Content::Text(_) => (0o444, 1),
            Content::Link(_) => (0o777, 1),
        };
        Ok(Attr::of_empty(ino, node.file_type().mode() | permissions, nlink, self.mounted))
    }

    fn find(&self, entry: Name<'_>) -> Result<Entry, Errno> {
        let (directory, node) = Self::node(entry.parent)?;
        if node.file_type() != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        let is_sought = |node: &Node| node.parent == directory && node.name.as_bytes() == entry.name;
        let index = match entry.name {
            b".." => Some(node.parent),
            _ => NODES.iter().position(is_sought),
        };
        Ok(Entry { attr: self.attr(ino(index.ok_or(Errno::ENOENT)?))?, generation: 0, validity: 0 })
    }

    fn entries(
        directory: Ino,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<(), Errno> {
        let (parent, node) = Self::node(directory)?;
        if node.file_type() != FileType::Directory {
            return Err(Errno::ENOTDIR);
        }
        // The root is in no directory.
        let nodes = NODES.iter().enumerate().skip(to_usize(position).max(1));
        for (index, node) in nodes.filter(|(_, node)| node.parent == parent) {
            let (name, next) = (node.name.as_bytes(), index as u64 + 1);
            let entry = DirEntry { number: ino(index).0, file_type: node.file_type(), name, next };
            if entries(entry).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn write(&self, write: Write) -> Result<Vec<u8>, Errno> {
        let mut text = Text::default();
        write(&self.facts, S::now(), &mut text).map_err(|_| Errno::ENOMEM)?;
        Ok(text.into_bytes())
    }

    fn open_text(&self, ino: Ino, flags: i32) -> Result<Opened, Errno> {
        match Self::node(ino)?.1.content {
            Content::Text(_) if flags & ACCESS_MODE != 0 => Err(Errno::EACCES),
            Content::Text(write) => {
                let file = S::arc(TextFile::new(self.write(write)?)).ok_or(Errno::ENOMEM)?;
                Ok(Opened::Object(file))
            }
            Content::Directory | Content::Link(_) => Ok(Opened::Inode(0)),
        }
    }
}

impl<S: System, F: Facts> FileSystem for ProcFs<S, F>
where
    S: Debug,
{
    fn lookup(&self, _: &mut Call<'_, '_>, entry: Name<'_>) -> Reply<Lookup> {
        Poll::Ready(self.find(entry).map(Lookup::Found))
    }

    fn forget(&self, _ino: Ino, _references: u64) {}

    fn getattr(&self, _: &mut Call<'_, '_>, ino: Ino) -> Reply<Attr> {
        Poll::Ready(self.attr(ino))
    }

    fn readlink(&self, _: &mut Call<'_, '_>, ino: Ino, target: &mut Vec<u8>) -> Reply<()> {
        Poll::Ready(Self::node(ino).and_then(|(_, node)| {
            let Content::Link(write) = node.content else { return Err(Errno::EINVAL) };
            let text = self.write(write)?;
            target.try_reserve(text.len()).map_err(|_| Errno::ENOMEM)?;
            target.extend_from_slice(&text);
            Ok(())
        }))
    }

    fn open(&self, _: &mut Call<'_, '_>, ino: Ino, flags: i32) -> Reply<Opened> {
        Poll::Ready(self.open_text(ino, flags))
    }

    fn read(&self, _: &mut Call<'_, '_>, _: OpenInode, _: u64, _: &mut ReadBuffer<'_>) -> Reply<()> {
        // Only directories are inodes when they are open.
        Poll::Ready(Err(Errno::EISDIR))
    }

    fn readdir(
        &self,
        _: &mut Call<'_, '_>,
        directory: OpenInode,
        position: u64,
        entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Reply<()> {
        Poll::Ready(Self::entries(directory.ino, position, entries))
    }

    fn statfs(&self, _: &mut Call<'_, '_>) -> Reply<StatFs> {
        Poll::Ready(Ok(StatFs { block_size: BLOCK_SIZE, ..StatFs::default() }))
    }
}

#[cfg(test)]
mod tests;
