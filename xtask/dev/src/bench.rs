//! `cargo xtask bench`: measures this system, and compares it with Linux and QEMU where a comparison is
//! possible.
//!
//! | suite | measures |
//! | --- | --- |
//! | `boot` | image size, minimum memory, instructions and time until the program's `main`; start times, compared with uhyve and Linux |
//! | `bursts` | latency of clients that connect at the same time, through a forwarded port, compared with Linux itself |
//! | `core` | threads, locks, clocks and memory: instructions, compared with a Linux guest; time, compared with Linux itself |
//! | `fs` | calls with files in memory: instructions, compared with a Linux guest; time, compared with Linux's tmpfs; time in a mounted folder |
//! | `heap` | scaling of the allocator with threads, and contention for its shared lock |
//! | `hypervisor` | start, memory and size of uhyve: on KVM compared with QEMU, on the process engine compared with a plain process |
//! | `mixed` | messages, requests, sleeps, locks and files while other threads compute, compared with Linux itself and a Linux guest |
//! | `net` | throughput, latency and connection rates, compared with Linux guests and Linux itself |
//! | `plain` | plain loops over collections, text, memory, locks, clocks and mathematics, compared with Linux itself |
//! | `web` | rate and latency of requests to axum on tokio, compared with Linux guests and Linux itself |

mod beside_linux;
mod boot;
mod bursts;
mod chart;
mod core;
mod cpio;
mod debian_kernel;
mod fs;
pub(crate) mod guest_start;
mod heap;
mod hypervisor;
mod linux;
mod mixed;
mod native;
pub(crate) mod net;
pub(crate) mod operations;
mod plain;
pub(crate) mod process;
mod running;
mod starts;
mod system;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use hermit_machines::uhyve::Engine;
use hermit_toolchain::build::{self, BuildOptions};
use hermit_toolchain::target::FloatAbi;
use hermit_toolchain::{setup, workspace};
use serde_json::{Map, Value};

use crate::figures::{self, Conditions, FigureRecord};

/// Number of runs, whose median is the figure.
const RUNS: usize = 11;

/// Options of QEMU that make the guest's time-stamp counter count instructions.
const COUNT_INSTRUCTIONS: [&str; 2] = ["-icount", "shift=0"];

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Suites to measure; all if none is named
    #[arg(value_enum, value_name = "SUITE")]
    suites: Vec<Suite>,
    /// Measure on this platform only
    #[arg(long, value_enum, value_name = "PLATFORM")]
    platform: Option<BenchPlatform>,
    /// Also write the figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the figures to docs/figures.json, and the tables of documents that are made from it
    #[arg(long)]
    record: bool,
    #[command(flatten)]
    net: net::NetSelection,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// From reset to main: image size, least memory, instructions, time
    Boot,
    /// Clients that connect at the same time, through a forwarded port: all served, and how soon
    Bursts,
    /// Threads, locks, clocks and memory: in instructions with QEMU, in time in a process
    Core,
    /// Files in memory: in instructions with QEMU, in time in a process beside Linux's tmpfs
    Fs,
    /// Allocation by 1, 2 and 4 threads: throughput, and acquisitions of the shared lock
    Heap,
    /// uhyve beside QEMU, or beside a plain process: time to the first output, memory, threads, size
    Hypervisor,
    /// Messages, requests, sleeps, locks and files beside computing threads, beside the same on Linux
    Mixed,
    /// Servers beside those of a Linux guest and of Linux itself: throughput, latency, connections, start
    Net,
    /// Plain loops over what std offers, beside the same on Linux
    Plain,
    /// axum on tokio, beside the same in a Linux guest and on Linux itself: requests per second, and how soon
    Web,
}

/// A platform on which guests are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum BenchPlatform {
    /// QEMU, and uhyve on KVM beside it
    Qemu,
    /// uhyve in a process
    Process,
}

impl Arguments {
    /// Returns true if the options select a suite on a platform. Without options, all suites on all platforms
    /// are selected.
    fn selects(&self, suite: Suite, platform: BenchPlatform) -> bool {
        (self.suites.is_empty() || self.suites.contains(&suite))
            && self.platform.is_none_or(|wanted| wanted == platform)
    }
}

/// Measures a suite on one platform, prints its figures and returns them.
type Measure = fn() -> Result<Value>;

/// The suites by platform, with their names in the output of `--json` and in the record.
const SUITES: [(Suite, BenchPlatform, &str, Measure); 14] = [
    (Suite::Boot, BenchPlatform::Qemu, "boot", boot::main),
    (Suite::Boot, BenchPlatform::Qemu, "starts", starts::main),
    (Suite::Bursts, BenchPlatform::Process, "bursts", bursts::main),
    (Suite::Core, BenchPlatform::Qemu, "core", core::main),
    (Suite::Core, BenchPlatform::Process, "core, process", || {
        native::main(Engine::Process, &operations::CORE, None)
    }),
    (Suite::Fs, BenchPlatform::Qemu, "fs", fs::main),
    (Suite::Fs, BenchPlatform::Process, "fs, process", fs::process),
    (Suite::Fs, BenchPlatform::Process, "fs, mounted", fs::mounted),
    (Suite::Heap, BenchPlatform::Qemu, "heap", heap::main),
    (Suite::Hypervisor, BenchPlatform::Qemu, "hypervisor", hypervisor::main),
    (Suite::Hypervisor, BenchPlatform::Process, "hypervisor, process", process::main),
    (Suite::Mixed, BenchPlatform::Process, "mixed", mixed::in_process),
    (Suite::Mixed, BenchPlatform::Qemu, "mixed, qemu", mixed::in_qemu),
    (Suite::Plain, BenchPlatform::Process, "plain", plain::main),
];

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    if arguments.record && arguments.net.congestion.is_some() {
        bail!("the record is of the default congestion control: leave out --record or --congestion");
    }
    if arguments.record && arguments.net.is_part() {
        bail!("the record is of all systems and topics: leave out --record, or --system and --topic");
    }
    if arguments.platform == Some(BenchPlatform::Process) {
        setup::ensure()?;
    } else {
        setup::ensure_with_qemu()?;
    }
    let conditions = arguments.record.then(Conditions::detect).transpose()?;
    // Each suite is recorded when it ends, so that the failure of a later suite does not lose its figures.
    let record = |name: &str, figures: &Value| match &conditions {
        Some(conditions) => FigureRecord::update(name, figures, conditions),
        None => Ok(()),
    };
    let mut figures = Map::new();
    for (suite, platform, name, measure) in SUITES {
        if arguments.selects(suite, platform) {
            let measured = measure().with_context(|| format!("suite {name}"))?;
            record(name, &measured)?;
            figures.insert(name.to_owned(), measured);
        }
    }
    for (suite, name, selection) in [
        (Suite::Net, arguments.net.record_name(), arguments.net.clone()),
        (Suite::Web, "web", arguments.net.web()),
    ] {
        if arguments.suites.is_empty() || arguments.suites.contains(&suite) {
            let measured = net(arguments, suite, name, &selection)?;
            record(name, &measured)?;
            figures.insert(name.to_owned(), measured);
        }
    }
    ensure!(!figures.is_empty(), "these suites measure nothing on this platform");
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&figures)?;
        std::fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    if arguments.record { figures::write() } else { Ok(()) }
}

/// Measures the suite `net` or `web`, which need privileges. Without privileges, skips the suite, or fails if
/// the user named it.
fn net(arguments: &Arguments, suite: Suite, name: &str, selection: &net::NetSelection) -> Result<Value> {
    net::main(selection, arguments.platform).or_else(|error| {
        if arguments.suites.contains(&suite) {
            return Err(error);
        }
        eprintln!("{name}: not available: {error:#}");
        Ok(Value::Null)
    })
}

/// Builds an example for the guest and returns its image.
pub(crate) fn example(name: &str) -> Result<PathBuf> {
    example_with(name, FloatAbi::Hard)
}

fn example_with(name: &str, float: FloatAbi) -> Result<PathBuf> {
    let folder = workspace::program(name).with_context(|| format!("there is no program {name}"))?;
    build::guest_program(&folder, &BuildOptions { release: true, float, ..BuildOptions::default() })
}

/// Returns the size of a program without symbols and debug information, in bytes.
pub(crate) fn stripped_size(program: &Path) -> Result<u64> {
    let folder = tempfile::TempDir::new().context("cannot make a temporary folder")?;
    let stripped = folder.path().join("stripped");
    build::strip(program, &stripped)?;
    Ok(stripped.metadata()?.len())
}

/// Returns the median.
fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}
