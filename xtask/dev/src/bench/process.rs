//! The suite `hypervisor` for the process engine: a guest beside the same program as a plain process of this host.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};

use super::running::Running;
use super::{example, linux, median};
use xtask::uhyve::{Engine, Uhyve};
use xtask::{process, setup};

/// Starts of which the median counts.
const STARTS: usize = 31;

/// Programs at the same time.
const AT_ONCE: usize = 100;

/// How long programs wait before they are looked at.
const SETTLED: Duration = Duration::from_millis(300);

/// From starting uhyve to the greeting, in microseconds.
const TIME_AIM: u64 = 10_000;

/// Memory beyond that of a plain process, in KiB.
const MEMORY_AIM: u64 = 8 << 10;

/// What runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Guest,
    Linux,
}

const PLACES: [Place; 2] = [Place::Guest, Place::Linux];

/// A figure of each.
type Row = [u64; PLACES.len()];

/// Measures, prints and returns all figures; nothing where this host has no such engine.
pub(super) fn main() -> Result<Value> {
    let uhyve = Uhyve::check(setup::uhyve()?)?;
    if !uhyve.works(Engine::Process) {
        eprintln!("process engine: not available: {}", uhyve.about(Engine::Process));
        return Ok(Value::Null);
    }
    let bench = Bench::prepare(uhyve)?;
    println!("{:<56} {:>11} {:>11}", "program", "in uhyve", "on Linux");
    let mut all = Map::new();
    for (name, [ours, linux]) in bench.times()?.into_iter().chain(bench.memory()?) {
        println!("{name:<56} {ours:>11} {linux:>11}");
        all.insert(name.to_owned(), json!({ "uhyve": ours, "linux": linux }));
    }
    println!("aims: {TIME_AIM} us to the greeting, {MEMORY_AIM} KiB more than Linux for one program");
    Ok(Value::Object(all))
}

/// The programs in both forms.
#[derive(Debug)]
struct Bench {
    uhyve: Uhyve,
    hello_world: [PathBuf; PLACES.len()],
    stdin: [PathBuf; PLACES.len()],
}

impl Bench {
    fn prepare(uhyve: Uhyve) -> Result<Self> {
        let both = |name| Ok::<_, anyhow::Error>([example(name)?, linux::native(name)?]);
        Ok(Self { uhyve, hello_world: both("hello_world")?, stdin: both("stdin")? })
    }

    fn start(&self, place: Place, [image, program]: &[PathBuf; PLACES.len()]) -> Result<Running> {
        let mut command = match place {
            Place::Guest => self.uhyve.on(Engine::Process),
            Place::Linux => Command::new(program),
        };
        if place == Place::Guest {
            command.arg(image);
        }
        Running::start(command)
    }

    /// Both take turns, so that they meet the same load.
    fn times(&self) -> Result<Vec<(&'static str, Row)>> {
        let mut runs: [Vec<(u64, u64)>; PLACES.len()] = Default::default();
        for _ in 0..STARTS {
            for (place, runs) in PLACES.into_iter().zip(&mut runs) {
                let mut running = self.start(place, &self.hello_world)?;
                runs.push((micros(running.first_byte()?)?, micros(running.end()?)?));
            }
        }
        let medians = |figure: fn(&(u64, u64)) -> u64| {
            runs.each_ref().map(|runs| median(runs.iter().map(figure).collect()))
        };
        Ok(vec![
            ("exec to the program's first output, median (us)", medians(|run| run.0)),
            (
                "exec to the program's first output, minimum (us)",
                runs.each_ref().map(|runs| runs.iter().map(|run| run.0).min().unwrap_or_default()),
            ),
            ("exec to exit, median (us)", medians(|run| run.1)),
            ("100 at once: first exec to last exit (us)", self.crowd()?),
        ])
    }

    fn crowd(&self) -> Result<Row> {
        let time = |place| {
            let start = Instant::now();
            let programs =
                (0..AT_ONCE).map(|_| self.start(place, &self.hello_world)).collect::<Result<Vec<_>>>()?;
            for mut program in programs {
                program.end()?;
            }
            micros(start.elapsed())
        };
        Ok([time(Place::Guest)?, time(Place::Linux)?])
    }

    /// The memory of programs that wait for input, with that of all processes it takes to run them.
    fn memory(&self) -> Result<Vec<(&'static str, Row)>> {
        let waiting = |place, count: usize| {
            let mut programs =
                (0..count).map(|_| self.start(place, &self.stdin)).collect::<Result<Vec<_>>>()?;
            for program in &mut programs {
                program.write(b"ready\n")?;
                program.first_byte()?;
            }
            thread::sleep(SETTLED);
            programs.iter().map(|program| Processes::of(program.id())).collect::<Result<Vec<_>>>()
        };
        let sum = |all: &[Processes]| all.iter().map(|one| one.first + one.children).sum::<u64>();
        let (guest, linux) = (waiting(Place::Guest, 1)?, waiting(Place::Linux, 1)?);
        ensure!(guest[0].children > 0 && linux[0].children == 0, "these are other processes than expected");
        let crowd = [waiting(Place::Guest, AT_ONCE)?, waiting(Place::Linux, AT_ONCE)?];
        Ok(vec![
            ("Pss of all processes (KiB)", [sum(&guest), sum(&linux)]),
            ("Pss of the uhyve process (KiB)", [guest[0].first, 0]),
            ("100 at once: Pss of all processes (KiB)", crowd.each_ref().map(|all| sum(all))),
        ])
    }
}

fn micros(time: Duration) -> Result<u64> {
    Ok(u64::try_from(time.as_micros())?)
}

/// The memory of a process and of its children, in KiB: pages that several processes share count in part.
#[derive(Debug)]
struct Processes {
    first: u64,
    children: u64,
}

impl Processes {
    fn of(process: u32) -> Result<Self> {
        let children = process::children(process)?.into_iter().map(proportional).sum::<Result<u64>>()?;
        Ok(Self { first: proportional(process)?, children })
    }
}

/// Proc_pid_smaps(5).
fn proportional(process: u32) -> Result<u64> {
    let file = format!("/proc/{process}/smaps_rollup");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(number.with_context(|| format!("{file} names no memory"))?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::proportional;

    #[test]
    fn memory_of_a_process_is_read() {
        assert!(proportional(std::process::id()).unwrap() > 100);
        assert!(proportional(0).is_err());
    }
}
