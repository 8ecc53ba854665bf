//! Measures the start of hello_world, from exec to the first byte of output, on four systems that take turns:
//! uhyve's process engine, uhyve on KVM, QEMU, and a plain process of the host.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use hermit_machines::qemu::Guest;
use hermit_machines::uhyve::{self, Engine, Uhyve};
use hermit_toolchain::target::FloatAbi;
use hermit_toolchain::{setup, workspace};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use super::chart::{self, PercentileCurve};
use super::running::RunningProcess;
use super::system::System;
use super::{example, example_with, linux};
use xtask::program;

/// Number of starts of each system.
const STARTS: usize = 51;

/// Returns the name of a system in the figures.
const fn name(system: System) -> &'static str {
    match system {
        System::Linux => "Linux",
        System::Process => "uhyve, process",
        System::Kvm => "uhyve, KVM",
        System::Qemu => "QEMU, microvm",
    }
}

/// The program for all systems, and the tools that start it.
#[derive(Debug)]
struct Programs {
    uhyve: Uhyve,
    loader: PathBuf,
    image: PathBuf,
    /// Image for KVM. It is a soft-float image if KVM emulates in software.
    kvm_image: PathBuf,
    native: PathBuf,
}

impl Programs {
    fn prepare() -> Result<Self> {
        let uhyve = Uhyve::check(setup::uhyve()?)?;
        let float = if uhyve.works(Engine::Kvm) { FloatAbi::Hard } else { FloatAbi::Soft };
        Ok(Self {
            uhyve,
            loader: setup::loader()?,
            image: example("hello_world")?,
            kvm_image: example_with("hello_world", float)?,
            native: linux::native("hello_world")?,
        })
    }

    fn start(&self, system: System) -> Result<RunningProcess> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let uhyve = |engine, image: &PathBuf| {
            let mut command = uhyve::command(&self.uhyve.program, engine);
            command.arg(image);
            command
        };
        let command = match system {
            System::Linux => Command::new(&self.native),
            System::Process => uhyve(Engine::Process, &self.image),
            System::Kvm => uhyve(Engine::Kvm, &self.kvm_image),
            System::Qemu => {
                let name = program::name_of(&self.image);
                Guest::new(self.loader.clone(), Some(self.image.clone()), name).command(folder.path())?
            }
        };
        RunningProcess::start_with(command, Some(folder))
    }

    /// Returns the time to the first byte of output in microseconds.
    fn first_byte(&self, system: System) -> Result<u64> {
        let mut running = self.start(system)?;
        let time = running.first_byte().with_context(|| name(system))?;
        running.end()?;
        Ok(u64::try_from(time.as_micros())?)
    }
}

/// Measures all systems that work on this host. Prints, draws and returns the figures.
pub(super) fn main() -> Result<Value> {
    let programs = Programs::prepare()?;
    let works = |system: &System| match system {
        System::Linux | System::Qemu => true,
        System::Process => programs.uhyve.works(Engine::Process),
        System::Kvm => std::path::Path::new("/dev/kvm").exists(),
    };
    let systems: Vec<_> = System::ALL.into_iter().filter(works).collect();
    let mut times = vec![Vec::new(); systems.len()];
    for _ in 0..STARTS {
        for (system, times) in systems.iter().zip(&mut times) {
            times.push(programs.first_byte(*system)?);
        }
    }
    times.iter_mut().for_each(|times| times.sort_unstable());
    println!("{:<32} {:>9} {:>9} {:>9}", "exec to the first output (us)", "minimum", "median", "90 %");
    let (mut figures, mut curves) = (Map::new(), Vec::new());
    for (system, times) in systems.into_iter().zip(&times) {
        let [min, median, high] = [1, 50, 90].map(|percent| percentile(times, percent));
        println!("{:<32} {min:>9} {median:>9} {high:>9}", name(system));
        figures.insert(name(system).to_owned(), json!({ "min": min, "median": median, "p90": high }));
        let milliseconds =
            |percent| f64::from(u32::try_from(percentile(times, percent)).unwrap_or(u32::MAX)) / 1e3;
        let milliseconds = (1..=100).map(milliseconds).collect();
        curves.push(PercentileCurve { name: name(system), color: system.color(), milliseconds });
    }
    let file = workspace::target_dir().join("bench").join("starts.svg");
    chart::draw_percentiles(&file, "exec of hello_world to its first output (ms)", "starts (%)", curves)?;
    Ok(Value::Object(figures))
}

/// Returns the time within which `percent` percent of the starts were done. `times` must be sorted and not
/// empty.
fn percentile(times: &[u64], percent: usize) -> u64 {
    let rank = (times.len() * percent).div_ceil(100);
    times.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentile_is_the_nearest_rank() {
        let times = [10, 20, 30, 40, 50];
        let found = [1, 20, 21, 50, 90, 100].map(|percent| percentile(&times, percent));
        assert_eq!(found, [10, 10, 20, 30, 50, 50]);
    }
}
