//! The suite `core` on the processor itself: `examples/core_bench` in a machine of uhyve and as a program of this host, in turns,
//! in nanoseconds.
//!
//! The guest has one CPU. So has the program of the host, and both have the same one; a second column has all CPUs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::core::{LIMIT, MEMORY, parse};
use super::{example, linux};
use xtask::uhyve::{Engine, Uhyve};
use xtask::{process, setup};

/// How often each of the three runs. In each run the program takes the median of five rounds by itself.
const RUNS: usize = 11;

/// Every operation, its name on the command line, and how many times longer it should take on Linux.
const AIMS: [(&str, &str, f64); 11] = [
    ("process::id", "process-id", 20.0),
    ("Instant::now", "now", 1.0),
    ("yield_now, alone", "yield", 20.0),
    ("yield between two threads, both switches", "yield-two", 5.0),
    ("condvar round trip between two threads", "condvar", 5.0),
    ("mpsc round trip", "mpsc", 1.0),
    ("Mutex, uncontended", "mutex", 1.0),
    ("spawn + join, default stack", "spawn", 10.0),
    ("spawn + join, 64 KiB stack", "spawn-64k", 10.0),
    ("Box of 64 bytes, alloc + free", "box", 1.0),
    ("Vec of 4 KiB, uninitialised", "vec", 1.0),
];

/// Where the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    /// In our guest.
    Guest,
    /// On Linux, with the guest's one CPU.
    Pinned,
    /// On Linux, with all CPUs.
    Unpinned,
}

const PLACES: [Place; 3] = [Place::Guest, Place::Pinned, Place::Unpinned];

/// Figures of each run, by place and operation.
type Figures = BTreeMap<(Place, String), Vec<f64>>;

/// Measures, prints and returns all figures; nothing where the engine does not run code at full speed.
pub(super) fn main(engine: Engine) -> Result<Value> {
    let uhyve = Uhyve::check(setup::uhyve()?)?;
    if !uhyve.works(engine) {
        eprintln!("core, {engine}: not available: {}", uhyve.about(engine));
        return Ok(Value::Null);
    }
    let bench = Bench::prepare(uhyve, engine)?;
    let mut figures = Figures::new();
    for _ in 0..RUNS {
        for place in PLACES {
            for (name, figure) in bench.run(place)? {
                figures.entry((place, name)).or_default().push(figure);
            }
        }
    }
    println!(
        "{:<44} {:>9} {:>12} {:>7} {:>6} {:>14}",
        "operation (nanoseconds)", "ours", "Linux, 1 CPU", "ratio", "aim", "Linux, all CPUs"
    );
    let mut all = Map::new();
    for (name, _, aim) in AIMS {
        let [ours, pinned, unpinned] =
            PLACES.map(|place| figures.get(&(place, name.to_owned())).and_then(|runs| median(runs)));
        let (ours, pinned) = ours.zip(pinned).with_context(|| format!("there are no figures of {name:?}"))?;
        let (unpinned, ratio) = (unpinned.unwrap_or(f64::NAN), pinned / ours);
        // As printed: two figures that differ by less are the same.
        let mark = if (ratio * 10.0).round() < aim * 10.0 { " missed" } else { "" };
        println!("{name:<44} {ours:>9.1} {pinned:>12.1} {ratio:>7.1} {aim:>6} {unpinned:>14.1}{mark}");
        let row =
            json!({ "ours": ours, "linux": pinned, "ratio": ratio, "aim": aim, "linux, all CPUs": unpinned });
        all.insert(name.to_owned(), row);
    }
    Ok(Value::Object(all))
}

fn median(runs: &[f64]) -> Option<f64> {
    let mut runs = runs.to_vec();
    runs.sort_by(f64::total_cmp);
    runs.get(runs.len() / 2).copied()
}

/// The program for both places.
#[derive(Debug)]
struct Bench {
    uhyve: Uhyve,
    engine: Engine,
    image: PathBuf,
    program: PathBuf,
    /// The CPU for the guest and for Linux.
    cpu: String,
}

impl Bench {
    fn prepare(uhyve: Uhyve, engine: Engine) -> Result<Self> {
        let (image, program) = (example("core_bench")?, linux::native("core_bench")?);
        let status = fs::read_to_string("/proc/self/status").context("cannot read our own status")?;
        let cpu = last_cpu(&status).context("Linux does not say which CPUs there are")?;
        Ok(Self { uhyve, engine, image, program, cpu })
    }

    /// What the program prints there.
    fn run(&self, place: Place) -> Result<BTreeMap<String, f64>> {
        let mut command = match place {
            Place::Guest => self.guest(),
            Place::Pinned => self.pinned(&self.program),
            Place::Unpinned => Command::new(&self.program),
        };
        command.arg("--nanoseconds").args(AIMS.map(|(_, word, _)| word));
        Ok(parse(&process::output(&mut command)?))
    }

    fn guest(&self) -> Command {
        let mut command = self.pinned(&self.uhyve.program);
        command.args(["--engine", &self.engine.to_string(), "--memory", MEMORY]);
        command.args(["--timeout", &LIMIT.as_secs().to_string()]).arg(&self.image).arg("--");
        command
    }

    fn pinned(&self, program: &Path) -> Command {
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", &self.cpu]).arg(program);
        command
    }
}

/// The last of the CPUs that a process may use, out of its status (proc_pid_status(5)). The first one often has more interrupts.
fn last_cpu(status: &str) -> Option<String> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    list.trim().rsplit([',', '-']).next().filter(|cpu| !cpu.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{last_cpu, median};

    #[test]
    fn the_last_cpu_is_found() {
        let last = |list: &str| last_cpu(&format!("Name:\tx\nCpus_allowed_list:\t{list}\n"));
        assert_eq!(last("0-1").as_deref(), Some("1"));
        assert_eq!(last("0-3,8").as_deref(), Some("8"));
        assert_eq!(last("5").as_deref(), Some("5"));
        assert_eq!(last_cpu("Name:\tx\n"), None);
    }

    #[test]
    fn the_middle_counts() {
        assert_eq!(median(&[3.0, 100.0, 1.0]), Some(3.0));
        assert_eq!(median(&[]), None);
    }
}
