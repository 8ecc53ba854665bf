//! `cargo xtask bench`: what things cost, measured and compared in one run.
//!
//! | suite | what |
//! | --- | --- |
//! | `boot` | what it takes to get to the program's `main` |
//! | `core` | threads, locks, clocks and memory, in instructions, beside a Linux guest |
//! | `heap` | whether threads that allocate get in each other's way |

mod boot;
mod core;
mod cpio;
mod heap;
mod linux;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::Map;

use crate::build::{self, Options};
use crate::{setup, workspace};

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
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&figures)?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// Builds an example for the guest.
fn example(name: &str) -> Result<PathBuf> {
    let folder = workspace::example(name).with_context(|| format!("there is no example {name}"))?;
    build::guest_program(&folder, &Options { release: true, ..Options::default() })
}
