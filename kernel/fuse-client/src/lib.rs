//! A file system whose files are those of a FUSE server outside of the machine.
//!
//! Its requests are nearly those of [`FileSystem`]: the client translates them, and reads ahead; the virtual
//! file system keeps names and attributes. How messages reach the server is the business of a [`Transport`],
//! such as a virtio-fs device.
//!
//! | module | contents |
//! | --- | --- |
//! | [`transport`](Transport) | what the client needs of the way to the server |
//! | `message` | requests as bytes |
//! | `reply` | replies, checked: the server is not trusted |
//! | `convert` | what both sides say of inodes |
//! | `listing` | with or without attributes |
//! | `read_ahead` | data that were asked for before they are read |
//! | `connect` | the handshake |
//! | `space` | waiting for space that removed files still have |
//! | `client`, `file`, `write`, `directory` | the file system |
//!
//! # Trust
//!
//! A reply that the protocol does not allow stops the server ([`Transport::stop`]), and every request fails
//! with `EIO` from then on. What the server says of its files is believed: it may change them at any time.
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
