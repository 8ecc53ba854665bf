//! A file system whose files are those of a FUSE server outside of the machine.
//!
//! Its requests are nearly those of [`FileSystem`]. The client translates them, and reads ahead. The virtual
//! file system caches names and attributes. A [`Transport`], such as a virtio-fs device, carries the messages
//! to the server.
//!
//! | module | contents |
//! | --- | --- |
//! | [`transport`](Transport) | the interface to the server |
//! | `message` | requests as bytes |
//! | `reply` | replies, checked: the server is not trusted |
//! | `convert` | conversion of types between both sides |
//! | `listing` | with or without attributes |
//! | `read_ahead` | data that were requested before they are read |
//! | `connect` | the handshake |
//! | `space` | waiting for the space of removed files |
//! | `client`, `file`, `write`, `directory` | the file system |
//!
//! # Trust
//!
//! A reply that the protocol does not allow stops the server ([`Transport::stop`]), and every request fails
//! with `EIO` from then on. The contents of the files are the server's: it may change them at any time.
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
mod listing;
mod message;
mod read_ahead;
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
