//! File systems: their common interface, a few implementations, and the virtual file system above them.
//!
//! | module | contents |
//! | --- | --- |
//! | `file_system` | the interface, in the shape of FUSE's low-level one |
//! | `contents` | contents of files in memory: cached pages, size and times |
//! | `join` | polls the futures of several mounts at the same time |
//! | `devfs` | the file system of device files (`/dev`) |
//! | `procfs` | the file system of facts about the machine and the process (`/proc`) |
//! | `ramfs` | a file system in memory |
//! | `short_string` | comparison and hashing of short paths and names |
//! | `unavailable` | a file system whose requests fail |
//! | `vfs` | mounts, path walks, open files, and the calls that take a path |
//! | `system` | the services that all file systems need from the kernel |
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod async_mutex;
mod contents;
mod devfs;
mod file_system;
mod join;
mod procfs;
mod ramfs;
mod short_string;
mod system;
#[cfg(test)]
#[cfg(not(loom))]
mod testing;
mod types;
mod unavailable;
mod vfs;

pub use contents::{Contents, DirectPage, Transfer};
pub use devfs::{DevFs, DeviceFile, Devices};
pub use file_system::{
    Call, Capabilities, EntriesPlus, FileSystem, Name, OpenInode, Opened, RenameFlags, Reply, WriteAt,
    Written,
};
pub use join::join_each;
pub use procfs::{DescriptorTarget, Facts, Mapping, MappingKind, ProcFs};
pub use ramfs::{RamFs, UnpackError};
pub use system::{PAGE_SIZE, System};
pub use types::{Attr, DirEntry, Entry, FOREVER, FileType, Ino, Lookup, SetAttr, SetTime, StatFs, Time};
pub use unavailable::Unavailable;
pub use vfs::{
    DescriptorFile, Done, FileDescriptor, FileLock, Metadata, MountInfo, OpenFile, OpenedPath, Symlinks, Vfs,
    Whence,
};

/// Compiles and runs the code of the guide to file systems.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/guides/file-system.md")]
struct FileSystemGuide;
