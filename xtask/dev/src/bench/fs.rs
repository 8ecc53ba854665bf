//! The suite `fs`: operations on files in memory and in folders of the host. It uses the methods of the suite
//! `core`.

use anyhow::{Context, Result};
use hermit_machines::uhyve::Engine;
use serde_json::Value;
use tempfile::TempDir;

use super::operations::{FS, MOUNTED};
use super::{core, native};

/// Measures instructions, and prints and returns the figures.
pub(super) fn main() -> Result<Value> {
    core::instructions(&FS)
}

/// Measures times of files in memory and on Linux's tmpfs, and prints and returns them.
pub(super) fn process() -> Result<Value> {
    native::main(Engine::Process, &FS, None)
}

/// Measures times of a guest in a mounted folder and of Linux in the same folder, which is on a tmpfs. Prints
/// and returns them.
pub(super) fn mounted() -> Result<Value> {
    let folder = TempDir::new_in("/dev/shm").context("cannot make a folder in memory")?;
    native::main(Engine::Process, &MOUNTED, Some(folder.path()))
}
