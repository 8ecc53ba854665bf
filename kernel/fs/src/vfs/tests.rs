//! Tests of the virtual file system with a ramfs.

mod again;
mod cache;
mod descriptor;
mod kept;
mod linux;
mod listing;
mod names;
mod now;
mod races;
mod writes;
