//! Structures that follow the header of a request, one for each kind.
//!
//! They have the layout and the field names of Linux's fuse.h, so the specification of a field is there. All
//! fields are plain numbers, since a peer may send any bits: [`flags`](crate::flags) has types for the bits.
//! Times are in seconds and nanoseconds since 1970. `fh` is a handle from an `OpenOut`. Sizes and offsets are
//! in bytes. `padding` and `unused` are sent as 0 and ignored by the receiver.
#![expect(
    missing_docs,
    reason = "fields are named as in fuse.h and described above; what needs words has them"
)]

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Of `Init` (`struct fuse_init_in` before 7.36). Later clients send 64 bytes; servers ignore the additional
/// ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InitIn {
    pub major: u32,
    pub minor: u32,
    /// Maximum size that the client reads ahead.
    pub max_readahead: u32,
    /// [`InitFlags`](crate::flags::InitFlags).
    pub flags: u32,
}

/// Of `Forget`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ForgetIn {
    /// Number of references to drop: each reply with an entry gave one.
    pub nlookup: u64,
}

/// Of `BatchForget`, before `count` times [`ForgetOne`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BatchForgetIn {
    pub count: u32,
    pub dummy: u32,
}

/// References to drop.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ForgetOne {
    pub nodeid: u64,
    pub nlookup: u64,
}

/// Of `Getattr`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct GetattrIn {
    /// [`GETATTR_FH`](crate::flags::GETATTR_FH).
    pub getattr_flags: u32,
    pub dummy: u32,
    pub fh: u64,
}

/// Of `Setattr`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SetattrIn {
    /// [`SetattrValid`](crate::flags::SetattrValid).
    pub valid: u32,
    pub padding: u32,
    pub fh: u64,
    pub size: u64,
    pub lock_owner: u64,
    pub atime: u64,
    pub mtime: u64,
    pub ctime: u64,
    pub atimensec: u32,
    pub mtimensec: u32,
    pub ctimensec: u32,
    pub mode: u32,
    pub unused4: u32,
    pub uid: u32,
    pub gid: u32,
    pub unused5: u32,
}

/// Of `Mkdir`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct MkdirIn {
    pub mode: u32,
    pub umask: u32,
}

/// Of `Rename`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RenameIn {
    /// Node of the directory of the new name.
    pub newdir: u64,
}

/// Of `Rename2`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Rename2In {
    /// Node of the directory of the new name.
    pub newdir: u64,
    /// Flags of renameat2(2).
    pub flags: u32,
    pub padding: u32,
}

/// Of `Link`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LinkIn {
    /// Node that gets a further name.
    pub oldnodeid: u64,
}

/// Of `Open` and `Opendir`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OpenIn {
    /// Flags of open(2) on Linux.
    pub flags: u32,
    pub unused: u32,
}

/// Of `Create`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct CreateIn {
    /// Flags of open(2) on Linux.
    pub flags: u32,
    /// Type and permission bits, as in `st_mode`.
    pub mode: u32,
    pub umask: u32,
    pub padding: u32,
}

/// Of `Release` and `Releasedir`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ReleaseIn {
    pub fh: u64,
    /// Flags of open(2) on Linux.
    pub flags: u32,
    pub release_flags: u32,
    pub lock_owner: u64,
}

/// Of `Flush`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FlushIn {
    pub fh: u64,
    pub unused: u32,
    pub padding: u32,
    pub lock_owner: u64,
}

/// Of `Read`, `Readdir` and `Readdirplus`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ReadIn {
    pub fh: u64,
    /// Offset in the file; in a directory 0 or `off` of an entry.
    pub offset: u64,
    /// Maximum size of the reply without its header.
    pub size: u32,
    pub read_flags: u32,
    pub lock_owner: u64,
    /// Flags of open(2) on Linux.
    pub flags: u32,
    pub padding: u32,
}

/// Of `Write`, before `size` bytes of data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct WriteIn {
    pub fh: u64,
    pub offset: u64,
    pub size: u32,
    pub write_flags: u32,
    pub lock_owner: u64,
    /// Flags of open(2) on Linux.
    pub flags: u32,
    pub padding: u32,
}

/// Of `Fsync` and `Fsyncdir`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FsyncIn {
    pub fh: u64,
    /// [`FSYNC_DATASYNC`](crate::flags::FSYNC_DATASYNC).
    pub fsync_flags: u32,
    pub padding: u32,
}

/// Of `Access`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct AccessIn {
    /// Bits of access(2).
    pub mask: u32,
    pub padding: u32,
}

/// Of `Fallocate`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct FallocateIn {
    pub fh: u64,
    pub offset: u64,
    pub length: u64,
    /// Mode of fallocate(2).
    pub mode: u32,
    pub padding: u32,
}

/// Of `Lseek`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct LseekIn {
    pub fh: u64,
    pub offset: u64,
    /// `SEEK_DATA` or `SEEK_HOLE` of Linux.
    pub whence: u32,
    pub padding: u32,
}

/// Sizes in bytes, as in fuse.h. The derive of `IntoBytes` checks that no structure has implicit padding.
const _: () = {
    assert!(size_of::<InitIn>() == 16);
    assert!(size_of::<ForgetIn>() == 8);
    assert!(size_of::<BatchForgetIn>() == 8);
    assert!(size_of::<ForgetOne>() == 16);
    assert!(size_of::<GetattrIn>() == 16);
    assert!(size_of::<SetattrIn>() == 88);
    assert!(size_of::<MkdirIn>() == 8);
    assert!(size_of::<RenameIn>() == 8);
    assert!(size_of::<Rename2In>() == 16);
    assert!(size_of::<LinkIn>() == 8);
    assert!(size_of::<OpenIn>() == 8);
    assert!(size_of::<CreateIn>() == 16);
    assert!(size_of::<ReleaseIn>() == 24);
    assert!(size_of::<FlushIn>() == 24);
    assert!(size_of::<ReadIn>() == 40);
    assert!(size_of::<WriteIn>() == 40);
    assert!(size_of::<FsyncIn>() == 16);
    assert!(size_of::<AccessIn>() == 8);
    assert!(size_of::<FallocateIn>() == 32);
    assert!(size_of::<LseekIn>() == 24);
};
