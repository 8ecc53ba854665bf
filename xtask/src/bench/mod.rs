//! `cargo xtask bench`: what things cost, measured and compared in one run.
//!
//! | suite | what |
//! | --- | --- |
//! | `boot` | what it takes to get to the program's `main` |
//! | `core` | threads, locks, clocks and memory, in instructions, beside a Linux guest |
//! | `heap` | whether threads that allocate get in each other's way |
//! | `hypervisor` | uhyve beside QEMU: time, memory, size |

mod boot;
mod core;
mod cpio;
mod heap;
mod hypervisor;
mod linux;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Map;

use crate::build::{self, Float, Options};
use crate::{setup, workspace};

/// Runs of which the median counts.
const RUNS: usize = 11;

/// QEMU's options that make the guest's time-stamp counter count instructions.
const COUNT_INSTRUCTIONS: [&str; 2] = ["-icount", "shift=0"];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to measure; nothing named: everything
    #[arg(value_enum, value_name = "SUITE")]
    suites: Vec<Suite>,
    /// Also write the figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// From reset to main: image size, least memory, instructions, time
    Boot,
    /// Threads, locks, clocks and memory, in instructions
    Core,
    /// Allocation by 1, 2 and 4 threads: throughput, and how often they meet at a lock
    Heap,
    /// uhyve beside QEMU: from start to the greeting, memory, threads, size
    Hypervisor,
}

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    setup::ensure_with_qemu()?;
    let wanted = |suite| arguments.suites.is_empty() || arguments.suites.contains(&suite);
    let mut figures = Map::new();
    if wanted(Suite::Boot) {
        figures.insert("boot".to_owned(), boot::main()?);
    }
    if wanted(Suite::Core) {
        figures.insert("core".to_owned(), core::main()?);
    }
    if wanted(Suite::Heap) {
        figures.insert("heap".to_owned(), heap::main()?);
    }
    if wanted(Suite::Hypervisor) {
        figures.insert("hypervisor".to_owned(), hypervisor::main()?);
    }
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&figures)?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Builds an example for the guest.
fn example(name: &str) -> Result<PathBuf> {
    example_with(name, Float::Hard)
}

fn example_with(name: &str, float: Float) -> Result<PathBuf> {
    let folder = workspace::example(name).with_context(|| format!("there is no example {name}"))?;
    build::guest_program(&folder, &Options { release: true, float, ..Options::default() })
}

/// The size of a file without symbols and debugging information.
fn stripped_size(program: &Path) -> Result<u64> {
    let folder = tempfile::TempDir::new().context("cannot make a temporary folder")?;
    let stripped = folder.path().join("stripped");
    build::strip(program, &stripped)?;
    Ok(fs::metadata(&stripped)?.len())
}

/// The middle of [`RUNS`] values.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}
