//! The suite `fs`: files in memory and in folders of the host, as `core` measures other operations.

use anyhow::{Context, Result};
use serde_json::Value;
use tempfile::TempDir;
use xtask::uhyve::Engine;

use super::operations::{FS, MOUNTED};
use super::{core, native};

/// Measures instructions, prints and returns them.
pub(super) fn main() -> Result<Value> {
    core::instructions(&FS)
}

/// Measures times beside Linux's tmpfs, prints and returns them.
pub(super) fn process() -> Result<Value> {
    native::main(Engine::Process, &FS, None)
}

/// Measures times in a mounted folder beside Linux in the same folder, which is on a tmpfs; prints and
/// returns them.
pub(super) fn mounted() -> Result<Value> {
    let folder = TempDir::new_in("/dev/shm").context("cannot make a folder in memory")?;
    native::main(Engine::Process, &MOUNTED, Some(folder.path()))
}
