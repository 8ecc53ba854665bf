//! The suite `fs`: files in memory, as `core` measures other operations.

use anyhow::Result;
use serde_json::Value;
use xtask::uhyve::Engine;

use super::operations::FS;
use super::{core, native};

/// Measures instructions, prints and returns them.
pub(super) fn main() -> Result<Value> {
    core::instructions(&FS)
}

/// Measures times beside Linux's tmpfs, prints and returns them.
pub(super) fn process() -> Result<Value> {
    native::main(Engine::Process, &FS)
}
