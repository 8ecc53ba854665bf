//! Messages of the FUSE protocol, version 7.31 (Linux, `include/uapi/linux/fuse.h`), as a virtio-fs driver
//! and device exchange them (virtio 1.2 §5.11).
//!
//! A request is an [`InHeader`], the structure of its [`Opcode`] (module [`request`]), and names or data.
//! Each name ends with a NUL. A reply is an [`OutHeader`] and, unless it has an error, a structure of module
//! [`reply`] or plain bytes; [`Opcode`] says which. Numbers have the byte order of the machine. Structures
//! have no implicit padding, so [`zerocopy`]'s functions convert them from and to bytes at any alignment.
//!
//! Both sides share this crate: the kernel's client, and uhyve's server. Each must expect the other to be
//! hostile. Only [`dirent`] has code that parses, and it checks its input.

#![no_std]
#![forbid(unsafe_code)]

pub mod dirent;
pub mod flags;
mod header;
mod message;
mod opcode;
pub mod reply;
pub mod request;

pub use header::{InHeader, OutHeader};
pub use message::{MAX_HEAD, MAX_REPLY_HEAD, Request, Tag};
pub use opcode::Opcode;

/// Major version of the protocol.
pub const MAJOR_VERSION: u32 = 7;

/// Minor version of the protocol: that of virtiofsd 1.2 and of QEMU 7.2. Later ones only add.
pub const MINOR_VERSION: u32 = 31;

/// Node of the root directory. It is valid without a lookup and is never forgotten.
pub const ROOT_NODE: u64 = 1;

/// Device ID of virtio-fs (virtio 1.2 §5.11.1).
pub const VIRTIO_DEVICE_ID: u32 = 26;

/// Size in bytes of the tag in the configuration space of a virtio-fs device: UTF-8, padded with NUL bytes
/// (virtio 1.2 §5.11.4).
pub const TAG_SIZE: usize = 36;

/// Maximum size in bytes of a name, without its NUL (Linux, `FUSE_NAME_MAX`).
pub const MAX_NAME: usize = 1024;
