//! Headers of requests and replies.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Header of a request (`struct fuse_in_header`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct InHeader {
    /// Size of the whole request in bytes, this header included.
    pub len: u32,
    /// [`Opcode`](crate::Opcode).
    pub opcode: u32,
    /// Identifier that the reply repeats.
    pub unique: u64,
    /// Node that the request names.
    pub nodeid: u64,
    /// User of the caller.
    pub uid: u32,
    /// Group of the caller.
    pub gid: u32,
    /// Process of the caller.
    pub pid: u32,
    /// Size of the extensions at the end of the request, in units of 8 bytes; 0 before protocol 7.38.
    pub total_extlen: u16,
    /// Unused.
    pub padding: u16,
}

/// Header of a reply (`struct fuse_out_header`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct OutHeader {
    /// Size of the whole reply in bytes, this header included.
    pub len: u32,
    /// 0, or a negated errno of Linux. With an error, nothing follows the header.
    pub error: i32,
    /// Identifier of the request.
    pub unique: u64,
}

const _: () = assert!(size_of::<InHeader>() == 40 && size_of::<OutHeader>() == 16);
