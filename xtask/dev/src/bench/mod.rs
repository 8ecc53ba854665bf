//! `cargo xtask bench`: what things cost, measured and compared in one run.
//!
//! | suite | what |
//! | --- | --- |
//! | `boot` | what it takes to get to the program's `main` |
//! | `core` | threads, locks, clocks and memory: in instructions, beside a Linux guest; in time, beside Linux itself |
//! | `heap` | whether threads that allocate get in each other's way |
//! | `hypervisor` | uhyve: on KVM beside QEMU, in a process beside a plain process; time, memory, size |
//! | `net` | throughput, latency and rates of connections, beside Linux guests and Linux itself |

mod boot;
mod core;
mod cpio;
mod debian_kernel;
mod heap;
mod hypervisor;
mod linux;
mod native;
pub(crate) mod net;
mod process;
mod running;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value};

use crate::figures::{self, Conditions, Record};
use xtask::build::{self, BuildOptions};
use xtask::target::FloatAbi;
use xtask::uhyve::Engine;
use xtask::{setup, workspace};

/// Runs of which the median counts.
const RUNS: usize = 11;

/// QEMU's options that make the guest's time-stamp counter count instructions.
const COUNT_INSTRUCTIONS: [&str; 2] = ["-icount", "shift=0"];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to measure; nothing named: everything
    #[arg(value_enum, value_name = "SUITE")]
    suites: Vec<Suite>,
    /// Where; without it, all that a suite has
    #[arg(long, value_enum, value_name = "PLATFORM")]
    platform: Option<Platform>,
    /// Also write the figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the figures to docs/figures.json, and the tables of documents that are made from it
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    net: net::Choice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// From reset to main: image size, least memory, instructions, time
    Boot,
    /// Threads, locks, clocks and memory: in instructions with QEMU, in time in a process
    Core,
    /// Allocation by 1, 2 and 4 threads: throughput, and how often they meet at a lock
    Heap,
    /// uhyve beside QEMU, or beside a plain process: from start to the greeting, memory, threads, size
    Hypervisor,
    /// Servers beside those of a Linux guest and of Linux itself: throughput, latency, connections, start
    Net,
}

/// What runs guests that are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Platform {
    /// QEMU, and uhyve on KVM beside it
    Qemu,
    /// uhyve in a process
    Process,
}

impl Arguments {
    fn wants(&self, suite: Suite, platform: Platform) -> bool {
        (self.suites.is_empty() || self.suites.contains(&suite))
            && self.platform.is_none_or(|wanted| wanted == platform)
    }
}

/// A suite on one platform.
type Measure = fn() -> Result<Value>;

/// What there is to measure, by the name of its figures.
const SUITES: [(Suite, Platform, &str, Measure); 6] = [
    (Suite::Boot, Platform::Qemu, "boot", boot::main),
    (Suite::Core, Platform::Qemu, "core", core::main),
    (Suite::Core, Platform::Process, "core, process", || native::main(Engine::Process)),
    (Suite::Heap, Platform::Qemu, "heap", heap::main),
    (Suite::Hypervisor, Platform::Qemu, "hypervisor", hypervisor::main),
    (Suite::Hypervisor, Platform::Process, "hypervisor, process", process::main),
];

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    if arguments.platform == Some(Platform::Process) {
        setup::ensure()?;
    } else {
        setup::ensure_with_qemu()?;
    }
    let conditions = arguments.record.then(Conditions::detect).transpose()?;
    let mut figures = Map::new();
    for (suite, platform, name, measure) in SUITES {
        if arguments.wants(suite, platform) {
            figures.insert(name.to_owned(), measure()?);
        }
    }
    if arguments.suites.is_empty() || arguments.suites.contains(&Suite::Net) {
        figures.insert("net".to_owned(), net(arguments)?);
    }
    ensure!(!figures.is_empty(), "these suites have nothing to measure there");
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&figures)?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if let Some(conditions) = conditions {
        let mut record = Record::read()?;
        figures.iter().for_each(|(suite, figures)| record.set(suite, figures, &conditions));
        record.write()?;
        figures::main()?;
    }
    Ok(())
}

/// It needs rights, and is left out without them unless it was asked for.
fn net(arguments: &Arguments) -> Result<Value> {
    net::main(&arguments.net, arguments.platform).or_else(|error| {
        if arguments.suites.contains(&Suite::Net) {
            return Err(error);
        }
        eprintln!("net: not available: {error:#}");
        Ok(Value::Null)
    })
}

/// Builds an example for the guest.
fn example(name: &str) -> Result<PathBuf> {
    example_with(name, FloatAbi::Hard)
}

fn example_with(name: &str, float: FloatAbi) -> Result<PathBuf> {
    let folder = workspace::example(name).with_context(|| format!("there is no example {name}"))?;
    build::guest_program(&folder, &BuildOptions { release: true, float, ..BuildOptions::default() })
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
