//! The suite `mixed`: threads, messages, sleeps, locks and files beside threads that compute, in a guest of uhyve's process
//! engine and as a process of this host, in turns, both pinned to as many CPUs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::core::parse;
use super::native::{allowed_cpus, median, pinned};
use super::{example, linux};
use xtask::uhyve::{Engine, Uhyve};
use xtask::{process, setup};

/// Numbers of CPUs, if the host has them.
const CPUS: [usize; 2] = [1, 2];

/// Numbers of computing threads for each CPU.
const BUSY: [usize; 3] = [0, 1, 2];

/// Number of runs of guest and process, whose median is the figure.
const RUNS: usize = 3;

/// Part of the names of figures that are printed and not recorded: what the computing threads get.
const COMPUTING: &str = "computing threads";

/// Time limit of a guest.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Memory of a guest.
const MEMORY: &str = "256M";

/// Figures of each run, by name.
type Figures = BTreeMap<String, Vec<f64>>;

/// Measures all figures, prints and returns them; null if the engine does not run code at full speed on this host.
pub(super) fn main() -> Result<Value> {
    let uhyve = Uhyve::check(setup::uhyve()?)?;
    if !uhyve.works(Engine::Process) {
        eprintln!("{}: not available: {}", Engine::Process, uhyve.about(Engine::Process));
        return Ok(Value::Null);
    }
    let (image, program) = (example("mixed_bench")?, linux::native("mixed_bench")?);
    let status = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let host = allowed_cpus(&status).context("/proc/self/status has no Cpus_allowed_list")?;
    println!("{:<70} {:>13} {:>13} {:>8}", "CPUs, computing threads: work", "ours", "Linux", "ratio");
    let mut all = Map::new();
    for cpus in CPUS.into_iter().filter(|&cpus| cpus <= host.len()) {
        for busy in BUSY.map(|each| each * cpus) {
            let list = host[host.len() - cpus..].iter().map(u32::to_string).collect::<Vec<_>>().join(",");
            let guest = || guest(&uhyve, &image, &list, cpus, busy);
            let rows = rows(guest, || native(&program, &list, busy))?;
            let rows = rows.into_iter().map(|(name, row)| (format!("{cpus}, {busy}: {name}"), row));
            all.extend(
                rows.inspect(|(name, row)| print(name, row)).filter(|(name, _)| !name.contains(COMPUTING)),
            );
        }
    }
    Ok(Value::Object(all))
}

fn print(name: &str, row: &Value) {
    let [ours, linux, ratio] = ["ours", "linux", "ratio"].map(|key| row[key].as_f64().unwrap_or(f64::NAN));
    println!("{name:<70} {ours:>13.1} {linux:>13.1} {ratio:>8.2}");
}

/// The rows of the record of both commands, by the names of the figures.
fn rows(ours: impl Fn() -> Command, linux: impl Fn() -> Command) -> Result<Vec<(String, Value)>> {
    let [ours, linux] = measure(ours, linux)?;
    let rows = ours.iter().map(|(name, runs)| {
        let row = row(name, median(runs), linux.get(name).and_then(|runs| median(runs)));
        Ok((name.clone(), row.with_context(|| format!("Linux has no figure of {name:?}"))?))
    });
    rows.collect()
}

/// Runs both commands in turns, and returns their figures.
fn measure(ours: impl Fn() -> Command, linux: impl Fn() -> Command) -> Result<[Figures; 2]> {
    let mut figures = [Figures::new(), Figures::new()];
    for _ in 0..RUNS {
        for (mut command, figures) in [ours(), linux()].into_iter().zip(&mut figures) {
            for (name, figure) in parse(&process::output(&mut command)?) {
                figures.entry(name).or_default().push(figure);
            }
        }
    }
    Ok(figures)
}

/// A row of the record. The ratio is more than 1 if the guest is better.
fn row(name: &str, ours: Option<f64>, linux: Option<f64>) -> Option<Value> {
    let (ours, linux) = ours.zip(linux)?;
    let is_time = name.contains("(us)");
    let ratio = if is_time { linux / ours } else { ours / linux };
    Some(json!({ "ours": ours, "linux": linux, "ratio": ratio }))
}

/// The command of the guest, pinned to a list of `count` CPUs.
fn guest(uhyve: &Uhyve, image: &Path, list: &str, count: usize, busy: usize) -> Command {
    let mut command = pinned(&uhyve.program, list);
    command.args([
        "--engine",
        &Engine::Process.to_string(),
        "--cpus",
        &count.to_string(),
        "--memory",
        MEMORY,
    ]);
    command.args(["--timeout", &TIMEOUT.as_secs().to_string()]).arg(image).args(["--", &busy.to_string()]);
    command
}

/// The command of the program on Linux, pinned to a list of CPUs.
fn native(program: &Path, list: &str, busy: usize) -> Command {
    let mut command = pinned(program, list);
    command.arg(busy.to_string());
    command
}

#[cfg(test)]
mod tests {
    use super::row;

    #[test]
    fn ratio_is_above_1_if_the_guest_is_better() {
        let ratio = |name, ours, linux| row(name, Some(ours), Some(linux)).unwrap()["ratio"].as_f64();
        assert_eq!(ratio("echo: rounds a second", 4.0, 2.0), Some(2.0));
        assert_eq!(ratio("sleep: late by (us), p50", 4.0, 2.0), Some(0.5));
        assert!(row("echo", Some(1.0), None).is_none());
    }
}
