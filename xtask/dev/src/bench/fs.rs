//! The suite `fs`: files in memory, as `core` measures other operations.

use anyhow::Result;
use serde_json::Value;
use xtask::uhyve::Engine;

use super::core::{self, Instructions};
use super::native::{self, Aim};

const INSTRUCTIONS: Instructions = Instructions {
    aims: &[
        ("open + close", Some(400)),
        ("metadata", Some(300)),
        ("read 1 B", Some(60)),
        ("write 1 B", Some(60)),
        ("seek", Some(25)),
        ("create + unlink", Some(1_000)),
        ("read 4 KiB", None),
        ("write 4 KiB", None),
        ("read 1 MiB", None),
        ("write 1 MiB", None),
        ("walk of 1 name", None),
        ("walk of 4 names", None),
        ("walk of 16 names", None),
    ],
    runs: &[&[
        "open-close",
        "metadata",
        "read-1",
        "write-1",
        "seek",
        "create-unlink",
        "read-4k",
        "write-4k",
        "read-1m",
        "write-1m",
        "walk-1",
        "walk-4",
        "walk-16",
    ]],
};

/// In time, also trees of many files.
const NANOSECONDS: [Aim; 16] = [
    ("open + close", "open-close", 10.0),
    ("metadata", "metadata", 1.0),
    ("read 1 B", "read-1", 10.0),
    ("write 1 B", "write-1", 10.0),
    ("seek", "seek", 10.0),
    ("create + unlink", "create-unlink", 1.0),
    ("read 4 KiB", "read-4k", 1.0),
    ("write 4 KiB", "write-4k", 1.0),
    ("read 1 MiB", "read-1m", 1.0),
    ("write 1 MiB", "write-1m", 1.0),
    ("walk of 1 name", "walk-1", 1.0),
    ("walk of 4 names", "walk-4", 1.0),
    ("walk of 16 names", "walk-16", 1.0),
    ("entry of 10,000, listed", "read-dir", 1.0),
    ("file of 10,000, written", "untar", 1.0),
    ("file of 10,000, searched", "grep", 1.0),
];

/// Measures instructions, prints and returns them.
pub(super) fn main() -> Result<Value> {
    core::instructions(&INSTRUCTIONS)
}

/// Measures times beside Linux's tmpfs, prints and returns them.
pub(super) fn process() -> Result<Value> {
    native::main(Engine::Process, &NANOSECONDS)
}
