//! Crates for files, archives and databases.

mod archives;
mod compression;
mod databases;
mod folder;
mod memmap2;
mod paths;
mod single;
mod tantivy;
mod tracing_appender;
mod walks;

use std::process::ExitCode;

fn main() -> ExitCode {
    crate_uses::main(&[
        ("brotli", compression::brotli),
        ("camino", paths::camino),
        ("filetime", single::filetime),
        ("fjall", databases::fjall),
        ("flate2", compression::flate2),
        ("fs_extra", walks::fs_extra),
        ("glob", paths::glob),
        ("globset", paths::globset),
        ("ignore", walks::ignore),
        ("lz4_flex", compression::lz4_flex),
        ("memmap2", memmap2::run),
        ("path-absolutize", paths::path_absolutize),
        ("redb", databases::redb),
        ("same-file", paths::same_file),
        ("sled", databases::sled),
        ("snap", compression::snap),
        ("tantivy", tantivy::run),
        ("tar", archives::tar),
        ("tempfile", single::tempfile),
        ("tracing-appender", tracing_appender::run),
        ("walkdir", walks::walkdir),
        ("zip", archives::zip),
    ])
}
