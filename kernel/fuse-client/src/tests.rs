//! Tests of the client with a server in the same process. The server translates messages back to requests to
//! a ramfs.

mod handles;
mod hostile;
mod listing;
mod requests;
mod server;
mod system;
mod translation;
mod transport;
mod write_back;
