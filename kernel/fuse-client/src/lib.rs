//! A file system whose files are those of a FUSE server outside of the machine.
//!
//! The requests of FUSE are nearly the same as those of [`FileSystem`]. The client translates the requests.
//! The virtual file system above it caches names, attributes and data, and reads ahead. A [`Transport`], such
//! as a virtio-fs device, carries the messages to the server.
//!
//! | module | contents |
//! | --- | --- |
//! | [`transport`](Transport) | the interface to the server |
//! | `message` | requests as bytes |
//! | `reply` | replies, checked: the server is not trusted |
//! | `convert` | conversion of types between both sides |
//! | `listing` | with or without attributes |
//! | `handle_cache` | handles of closed files, for the next open |
//! | `connect` | the handshake |
//! | `space` | waiting for the space of removed files |
//! | `client`, `file`, `write`, `directory` | the file system |
//!
//! # Trust
//!
//! If a reply violates the protocol, the client stops the server ([`Transport::stop`]). After that, every
//! request fails with `EIO`. The contents of the files belong to the server, which may change them at any
//! time.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod client;
mod connect;
mod convert;
mod directory;
mod file;
mod handle;
mod handle_cache;
mod listing;
mod message;
mod reply;
mod space;
#[cfg(test)]
mod tests;
mod transport;
mod write;

pub use client::FuseClient;
pub use connect::ConnectError;
pub use hermit_fuse::{Request, Tag};
pub use transport::{ServedReply, Transport};

#[cfg(doc)]
use hermit_fs::FileSystem;
