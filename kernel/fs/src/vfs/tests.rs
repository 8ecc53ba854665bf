//! Tests of the virtual file system with a ramfs.

mod cache;
mod descriptor;
mod fast_path;
mod kept;
mod linux;
mod listing;
mod names;
mod paths;
mod races;
mod writes;
