//! The interface of file systems: what a file system implements, and what it is given.
//!
//! The virtual file system and the file systems both depend on this module, and it depends on neither of
//! them.
//!
//! | module | contents |
//! | --- | --- |
//! | `file_system` | the trait of file systems, in the shape of FUSE's low-level interface |
//! | `types` | inodes, attributes, times and entries of directories |
//! | `contents` | contents of files in memory: cached pages, size and times |
//! | `system` | the services that all file systems need from the kernel |
//! | `async_mutex` | a mutex for which a call waits without blocking its thread |
//! | `short_string` | comparison and hashing of short paths and names |

pub(crate) mod async_mutex;
pub(crate) mod contents;
pub(crate) mod file_system;
pub(crate) mod short_string;
pub(crate) mod system;
pub(crate) mod types;

pub use contents::{Contents, DirectPage, Transfer};
pub use file_system::{
    Call, Capabilities, EntriesPlus, FileSystem, Name, OpenInode, Opened, ReadTarget, RenameFlags, Reply,
    WriteAt, Written,
};
pub use system::{PAGE_SIZE, System};
pub use types::{
    Attr, DescriptorTarget, DirEntry, Entry, FOREVER, FileType, Ino, Lookup, MountInfo, SetAttr, SetTime,
    StatFs, Time,
};
