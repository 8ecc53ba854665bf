//! Tests of the file-system device: a client of FUSE drives it through a queue, on a temporary folder.

mod client;
mod directories;
mod files;
mod hostile;
mod limits;
mod names;
mod races;
