//! Structures that follow the header of a reply without an error. Times are in seconds and nanoseconds since
//! 1970, validities in seconds and nanoseconds from the reply on; sizes are in bytes.
#![expect(
    missing_docs,
    reason = "fields are named as in fuse.h and described above; what needs words has them"
)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Attributes of a node (`struct fuse_attr`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Attr {
    /// Inode number that programs see; not the node.
    pub ino: u64,
    pub size: u64,
    /// Space in units of 512 bytes.
    pub blocks: u64,
    pub atime: u64,
    pub mtime: u64,
    pub ctime: u64,
    pub atimensec: u32,
    pub mtimensec: u32,
    pub ctimensec: u32,
    /// Type and permission bits, as in `st_mode`.
    pub mode: u32,
    pub nlink: u32,
    pub uid: u32,
    pub gid: u32,
    pub rdev: u32,
    pub blksize: u32,
    pub flags: u32,
}

/// Of `Lookup`, `Symlink`, `Mknod`, `Mkdir`, `Link`, and first of `Create`. Takes a reference to the node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct EntryOut {
    pub nodeid: u64,
    /// Distinguishes uses of the same number for a node.
    pub generation: u64,
    pub entry_valid: u64,
    pub attr_valid: u64,
    pub entry_valid_nsec: u32,
    pub attr_valid_nsec: u32,
    pub attr: Attr,
}

/// Of `Getattr` and `Setattr`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AttrOut {
    pub attr_valid: u64,
    pub attr_valid_nsec: u32,
    pub dummy: u32,
    pub attr: Attr,
}

/// Of `Init`. In 7.31, all fields after `map_alignment` are reserved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InitOut {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    /// [`InitFlags`](crate::flags::InitFlags) that both sides use.
    pub flags: u32,
    pub max_background: u16,
    pub congestion_threshold: u16,
    /// Maximum size of the data of a `Write`.
    pub max_write: u32,
    /// Resolution of times in nanoseconds.
    pub time_gran: u32,
    /// Maximum size of the data of a request in pages of 4 KiB, with
    /// [`MAX_PAGES`](crate::flags::InitFlags::MAX_PAGES).
    pub max_pages: u16,
    pub map_alignment: u16,
    pub unused: [u32; 8],
}

/// Of `Open` and `Opendir`, and second of `Create`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OpenOut {
    pub fh: u64,
    /// [`OpenReply`](crate::flags::OpenReply).
    pub open_flags: u32,
    pub padding: u32,
}

/// Of `Write`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct WriteOut {
    pub size: u32,
    pub padding: u32,
}

/// Of `Statfs` (`struct fuse_kstatfs`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct StatfsOut {
    /// Size, free and available space in units of `frsize`.
    pub blocks: u64,
    pub bfree: u64,
    pub bavail: u64,
    /// Inodes, and how many are free.
    pub files: u64,
    pub ffree: u64,
    pub bsize: u32,
    /// Maximum size of a name.
    pub namelen: u32,
    pub frsize: u32,
    pub padding: u32,
    pub spare: [u32; 6],
}

/// Of `Lseek`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LseekOut {
    pub offset: u64,
}

/// Sizes in bytes, as in fuse.h. The derive of `IntoBytes` checks that no structure has implicit padding.
const _: () = {
    assert!(size_of::<Attr>() == 88);
    assert!(size_of::<EntryOut>() == 128);
    assert!(size_of::<AttrOut>() == 104);
    assert!(size_of::<InitOut>() == 64);
    assert!(size_of::<OpenOut>() == 16);
    assert!(size_of::<WriteOut>() == 8);
    assert!(size_of::<StatfsOut>() == 80);
    assert!(size_of::<LseekOut>() == 8);
};
