//! The client with a server in the same process: a translation of messages back to requests of a ramfs.

mod hostile;
mod listing;
mod requests;
mod server;
mod system;
mod translation;
mod transport;
mod write_back;
