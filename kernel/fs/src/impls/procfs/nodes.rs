//! The files of procfs and their inode numbers.

use core::fmt;
use core::ops::ControlFlow;

use hermit_interface::{Errno, to_usize};

use super::facts::Facts;
use super::text::{self, Text};
use crate::interface::{DirEntry, FileType, Ino, Time};

/// Writes a text.
pub(super) type Write = fn(&dyn Facts, Time, &mut Text) -> fmt::Result;

/// A file that always exists.
pub(super) struct Node {
    pub(super) name: &'static str,
    /// Index of the directory.
    pub(super) parent: usize,
    pub(super) content: Content,
}

pub(super) enum Content {
    Directory,
    /// A text, which is written when the file is opened.
    Text(Write),
    /// A symbolic link. Its target is written as such a text.
    Link(Write),
    /// A symbolic link to the current directory.
    CurrentDirectory,
}

/// Index of the directory of the process.
const PROCESS: usize = 1;

/// Indices of the directories of settings.
const SYS: usize = 3;
pub(super) const SYS_KERNEL: usize = 4;

/// Index of the directory of open descriptors.
pub(super) const FD: usize = 2;

const fn directory(name: &'static str, parent: usize) -> Node {
    Node { name, parent, content: Content::Directory }
}

const fn text(name: &'static str, parent: usize, write: Write) -> Node {
    Node { name, parent, content: Content::Text(write) }
}

const fn link(name: &'static str, parent: usize, write: Write) -> Node {
    Node { name, parent, content: Content::Link(write) }
}

/// All files except the links of descriptors. The first one is the root.
pub(super) static NODES: [Node; 25] = [
    directory("", 0),
    // The only process.
    directory("1", 0),
    directory("fd", PROCESS),
    directory("sys", 0),
    directory("kernel", SYS),
    text("hostname", SYS_KERNEL, text::hostname),
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
    Node { name: "cwd", parent: PROCESS, content: Content::CurrentDirectory },
    text("environ", PROCESS, text::environ),
    link("exe", PROCESS, text::exe),
    text("maps", PROCESS, text::maps),
    text("mounts", PROCESS, text::mounts),
    text("stat", PROCESS, text::process_stat),
    text("statm", PROCESS, text::process_statm),
    text("status", PROCESS, text::process_status),
];

/// Inode number of the link of descriptor 0.
const FIRST_DESCRIPTOR: u64 = 1 << 32;

/// A file, as found by its inode number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Inode {
    /// A file, by its index in [`NODES`].
    Node(usize),
    /// The link of a descriptor.
    Descriptor(usize),
}

impl Inode {
    /// Returns the file of an inode number.
    ///
    /// # Errors
    ///
    /// `ENOENT`.
    pub(super) fn of(ino: Ino) -> Result<Self, Errno> {
        if let Some(number) = ino.0.checked_sub(FIRST_DESCRIPTOR) {
            return Ok(Self::Descriptor(to_usize(number)));
        }
        let index = to_usize(ino.0.wrapping_sub(Ino::ROOT.0));
        NODES.get(index).map(|_| Self::Node(index)).ok_or(Errno::ENOENT)
    }

    pub(super) const fn ino(self) -> Ino {
        match self {
            Self::Node(index) => Ino(Ino::ROOT.0 + index as u64),
            Self::Descriptor(number) => Ino(FIRST_DESCRIPTOR + number as u64),
        }
    }

    pub(super) fn content(self) -> Option<&'static Content> {
        match self {
            Self::Node(index) => NODES.get(index).map(|node| &node.content),
            Self::Descriptor(_) => None,
        }
    }

    pub(super) fn file_type(self) -> FileType {
        match self.content() {
            Some(Content::Directory) => FileType::Directory,
            Some(Content::Text(_)) => FileType::Regular,
            Some(Content::Link(_) | Content::CurrentDirectory) | None => FileType::Symlink,
        }
    }

    /// Returns the index of a directory.
    ///
    /// # Errors
    ///
    /// `ENOTDIR`.
    pub(super) fn directory(self) -> Result<usize, Errno> {
        match self {
            Self::Node(index) if self.file_type() == FileType::Directory => Ok(index),
            _ => Err(Errno::ENOTDIR),
        }
    }
}

/// Converts a name to the descriptor that it stands for.
pub(super) fn descriptor(name: &[u8]) -> Option<usize> {
    let digits = core::str::from_utf8(name).ok()?;
    let is_canonical = digits == "0" || digits.starts_with(|first: char| ('1'..='9').contains(&first));
    // The number has at most 32 bits, so that it fits into an inode number.
    let number: u32 = digits.parse().ok().filter(|_| is_canonical)?;
    Some(to_usize(number.into()))
}

/// Calls `entries` with the files of a directory, beginning at a position.
pub(super) fn list(
    directory: usize,
    position: u64,
    entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
) {
    // The root is in no directory.
    let nodes = NODES.iter().enumerate().skip(to_usize(position).max(1));
    for (index, node) in nodes.filter(|(_, node)| node.parent == directory) {
        let (inode, next) = (Inode::Node(index), index as u64 + 1);
        let (number, file_type) = (inode.ino().0, inode.file_type());
        if entries(DirEntry { number, file_type, name: node.name.as_bytes(), next }).is_break() {
            break;
        }
    }
}

/// Calls `entries` with the links of open descriptors, beginning at a position.
pub(super) fn list_descriptors(
    position: u64,
    next_open: impl Fn(usize) -> Option<usize>,
    entries: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
) {
    let mut from = to_usize(position);
    while let Some(descriptor) = next_open(from) {
        from = descriptor + 1;
        let (mut digits, inode) = ([0; 20], Inode::Descriptor(descriptor));
        let (number, file_type, name) = (inode.ino().0, inode.file_type(), decimal(descriptor, &mut digits));
        if entries(DirEntry { number, file_type, name, next: from as u64 }).is_break() {
            break;
        }
    }
}

/// Writes a number in decimal to the end of `digits`, and returns these digits.
fn decimal(number: usize, digits: &mut [u8; 20]) -> &[u8] {
    let (mut rest, mut start) = (number, digits.len());
    for digit in digits.iter_mut().rev() {
        *digit = b"0123456789".get(rest % 10).copied().unwrap_or(b'0');
        (rest, start) = (rest / 10, start - 1);
        if rest == 0 {
            break;
        }
    }
    digits.get(start..).unwrap_or_default()
}
