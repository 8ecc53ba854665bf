//! Suites that measure nanoseconds: `xtask/bench/core_bench` runs in a guest of uhyve and as a process of
//! this host, in turns.
//!
//! Guest and process are pinned to the same CPU. A second figure of the process is measured without pinning.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use hermit_machines::uhyve::{Engine, Uhyve};
use hermit_toolchain::{process, setup};
use serde_json::{Map, Value, json};

use super::core::parse;
use super::operations::{MEMORY, Operation, TIMEOUT};
use super::{example, linux};

/// Number of runs in each [`Environment`]. In each run, the program takes the median of five rounds.
const RUNS: usize = 11;

/// Environment in which the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Environment {
    /// In the guest.
    Guest,
    /// On Linux, pinned to the guest's CPU.
    Pinned,
    /// On Linux, on all CPUs.
    Unpinned,
}

const ENVIRONMENTS: [Environment; 3] = [Environment::Guest, Environment::Pinned, Environment::Unpinned];

/// Figures of each run, by environment and operation.
type Figures = BTreeMap<(Environment, String), Vec<f64>>;

/// Path of the mounted folder in the guest.
const MOUNT: &str = "/srv";

/// Environment variable with the path of the folder that `core_bench` uses.
const FOLDER: &str = "CORE_BENCH_FOLDER";

/// Measures all figures, and prints and returns them. Returns null if the engine does not run code at full
/// speed on this host. The files are in `folder`, a folder of the host, or else in memory.
pub(super) fn main(engine: Engine, operations: &[Operation], folder: Option<&Path>) -> Result<Value> {
    let uhyve = Uhyve::check(setup::uhyve()?)?;
    if !uhyve.works(engine) {
        eprintln!("{engine}: not available: {}", uhyve.about(engine));
        return Ok(Value::Null);
    }
    let bench = Bench::prepare(uhyve, engine, folder)?;
    let timed: Vec<_> =
        operations.iter().filter_map(|operation| Some((operation, operation.ratio?))).collect();
    let words: Vec<_> = timed.iter().map(|(operation, _)| operation.word).collect();
    let mut figures = Figures::new();
    for _ in 0..RUNS {
        for environment in ENVIRONMENTS {
            for (name, figure) in bench.run(environment, &words)? {
                figures.entry((environment, name)).or_default().push(figure);
            }
        }
    }
    println!(
        "{:<44} {:>9} {:>12} {:>7} {:>6} {:>14}",
        "operation (nanoseconds)", "ours", "Linux, 1 CPU", "ratio", "aim", "Linux, all CPUs"
    );
    let mut all = Map::new();
    for (Operation { title: name, .. }, aim) in timed {
        let [ours, pinned, unpinned] = ENVIRONMENTS
            .map(|environment| figures.get(&(environment, (*name).to_owned())).and_then(|runs| median(runs)));
        let (ours, pinned) = ours.zip(pinned).with_context(|| format!("there are no figures of {name:?}"))?;
        let (unpinned, ratio) = (unpinned.unwrap_or(f64::NAN), pinned / ours);
        // Compares the ratio as it is printed, that is, rounded.
        let mark = if (ratio * 10.0).round() < aim * 10.0 { " missed" } else { "" };
        println!("{name:<44} {ours:>9.1} {pinned:>12.1} {ratio:>7.1} {aim:>6} {unpinned:>14.1}{mark}");
        let row =
            json!({ "ours": ours, "linux": pinned, "ratio": ratio, "aim": aim, "linux, all CPUs": unpinned });
        all.insert((*name).to_owned(), row);
    }
    Ok(Value::Object(all))
}

/// Returns the median.
pub(super) fn median(runs: &[f64]) -> Option<f64> {
    let mut runs = runs.to_vec();
    runs.sort_by(f64::total_cmp);
    runs.get(runs.len() / 2).copied()
}

/// The program, built for guest and host.
#[derive(Debug)]
struct Bench<'a> {
    /// The folder of the host.
    folder: Option<&'a Path>,
    uhyve: Uhyve,
    engine: Engine,
    image: PathBuf,
    program: PathBuf,
    /// The CPU to which guest and process are pinned.
    cpu: String,
}

impl<'a> Bench<'a> {
    fn prepare(uhyve: Uhyve, engine: Engine, folder: Option<&'a Path>) -> Result<Self> {
        let (image, program) = (example("core_bench")?, linux::native("core_bench")?);
        let status = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
        let cpus = allowed_cpus(&status).context("/proc/self/status has no Cpus_allowed_list")?;
        // Takes the last CPU, because the first CPU often handles more interrupts.
        let cpu = cpus.last().context("there is no CPU")?.to_string();
        Ok(Self { folder, uhyve, engine, image, program, cpu })
    }

    /// Runs the program and returns its figures.
    fn run(&self, environment: Environment, words: &[&str]) -> Result<BTreeMap<String, f64>> {
        let mut command = match environment {
            Environment::Guest => self.guest(),
            Environment::Pinned => pinned(&self.program, &self.cpu),
            Environment::Unpinned => Command::new(&self.program),
        };
        command.envs(self.folder.map(|folder| (FOLDER, folder)));
        command.arg("--nanoseconds").args(words);
        Ok(parse(&process::output(&mut command)?))
    }

    /// Returns the command of the guest.
    fn guest(&self) -> Command {
        let mut command = pinned(&self.uhyve.program, &self.cpu);
        command.args(["--engine", &self.engine.to_string(), "--memory", MEMORY]);
        if let Some(folder) = self.folder {
            command.args(["--mount", &format!("{}:{MOUNT}", folder.display())]);
            command.args(["--env", &format!("{FOLDER}={MOUNT}")]);
        }
        command.args(["--timeout", &TIMEOUT.as_secs().to_string()]).arg(&self.image).arg("--");
        command
    }
}

/// Returns the command of a program that is pinned to a list of CPUs.
pub(super) fn pinned(program: &Path, cpus: &str) -> Command {
    let mut command = Command::new("taskset");
    command.args(["--cpu-list", cpus]).arg(program);
    command
}

/// Returns the CPUs of `Cpus_allowed_list` (proc_pid_status(5)).
pub(super) fn allowed_cpus(status: &str) -> Option<Vec<u32>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cpus = Vec::new();
    for part in list.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::{allowed_cpus, median};

    #[test]
    fn allowed_cpus_are_those_of_the_list() {
        let cpus = |list: &str| allowed_cpus(&format!("Name:\tx\nCpus_allowed_list:\t{list}\n"));
        assert_eq!(cpus("0-1"), Some(vec![0, 1]));
        assert_eq!(cpus("0-3,8"), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(cpus("5"), Some(vec![5]));
        assert_eq!(cpus(""), None);
        assert_eq!(allowed_cpus("Name:\tx\n"), None);
    }

    #[test]
    fn median_is_the_middle_value() {
        assert_eq!(median(&[3.0, 100.0, 1.0]), Some(3.0));
        assert_eq!(median(&[]), None);
    }
}
