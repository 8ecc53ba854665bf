//! File systems: their common interface, a few implementations, and the virtual file system above them.
//!
//! | module | contents |
//! | --- | --- |
//! | `interface` | what a file system implements, and what it is given |
//! | `impls` | file systems: in memory, of device files, and of facts about the machine |
//! | `vfs` | mounts, path walks, caches, open files, and the calls that take a path |
//!
//! The virtual file system and the file systems depend on the interface, and not on each other.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod impls;
mod interface;
#[cfg(test)]
#[cfg(not(loom))]
mod testing;
mod vfs;

pub use impls::{
    DevFs, DeviceFile, Devices, Facts, Mapping, MappingKind, ProcFs, RamFs, Unavailable, UnpackError,
};
pub use interface::{
    Attr, Call, Capabilities, Contents, DescriptorTarget, DirEntry, DirectPage, EntriesPlus, Entry, FOREVER,
    FileSystem, FileType, Ino, Lookup, MountInfo, Name, OpenInode, Opened, PAGE_SIZE, ReadTarget,
    RenameFlags, Reply, SetAttr, SetTime, StatFs, System, Time, Transfer, WriteAt, Written,
};
pub use vfs::{
    DescriptorFile, Done, FileDescriptor, FileLock, Metadata, OpenFile, OpenedPath, Symlinks, Vfs, Whence,
    join_each,
};

/// Compiles and runs the code of the guide to file systems.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/file-system.md")]
struct FileSystemGuide;
