//! Tests of the virtual file system with a ramfs.

mod linux;
mod names;
mod now;
