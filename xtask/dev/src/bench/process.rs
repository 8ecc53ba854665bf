//! The suite `hypervisor` on the process engine: compares a guest with the same program as a plain process of
//! this host.
//!
//! On this engine, a guest is a child process of uhyve in a sandbox. The figures show the cost of that: the
//! time from exec to the first output and to the exit, and the memory in addition to that of a plain process.
//! Time and memory are also measured with a hundred programs at once, which share pages. Memory is the sum of
//! Pss over uhyve and its children: each process counts a shared page divided by the number of processes that
//! share it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermit_machines::uhyve::{Engine, Uhyve};
use hermit_toolchain::setup;
use serde_json::{Map, Value, json};

use super::running::RunningProcess;
use super::{example, linux, median};
use crate::children::children;

/// Number of starts, whose median is the figure.
const STARTS: usize = 31;

/// Number of programs that run at the same time.
const CONCURRENT: usize = 100;

/// Number of programs that run one after the other.
const SEQUENTIAL: usize = 1000;

/// Time that programs run before their memory is measured.
const SETTLE_TIME: Duration = Duration::from_millis(300);

/// Aim for the time from the start of uhyve to the first output, in microseconds.
const TIME_AIM_US: u64 = 10_000;

/// Aim for the memory in addition to that of a plain process, in KiB.
const MEMORY_AIM_KIB: u64 = 8 << 10;

/// Environment in which the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Environment {
    /// In a guest of uhyve.
    Guest,
    /// As a process of the host.
    Linux,
}

const ENVIRONMENTS: [Environment; 2] = [Environment::Guest, Environment::Linux];

/// A figure of each environment.
type Row = [u64; ENVIRONMENTS.len()];

/// Measures all figures, and prints and returns them. Returns null if the engine does not work on this host.
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
    println!(
        "aims: {TIME_AIM_US} us to the first output, {MEMORY_AIM_KIB} KiB more than Linux for one program"
    );
    Ok(Value::Object(all))
}

/// The programs, as images and as executables of the host.
#[derive(Debug)]
struct Bench {
    uhyve: Uhyve,
    hello_world: [PathBuf; ENVIRONMENTS.len()],
    stdin: [PathBuf; ENVIRONMENTS.len()],
}

impl Bench {
    fn prepare(uhyve: Uhyve) -> Result<Self> {
        let both = |name| Ok::<_, anyhow::Error>([example(name)?, linux::native(name)?]);
        Ok(Self { uhyve, hello_world: both("hello_world")?, stdin: both("stdin")? })
    }

    fn start(
        &self,
        environment: Environment,
        [image, program]: &[PathBuf; ENVIRONMENTS.len()],
    ) -> Result<RunningProcess> {
        let mut command = match environment {
            Environment::Guest => self.uhyve.on(Engine::Process),
            Environment::Linux => Command::new(program),
        };
        if environment == Environment::Guest {
            command.arg(image);
        }
        RunningProcess::start(command)
    }

    /// Measures times. Guest and process take turns, so that the load of the host is the same for both.
    fn times(&self) -> Result<Vec<(&'static str, Row)>> {
        let mut runs: [Vec<(u64, u64)>; ENVIRONMENTS.len()] = Default::default();
        for _ in 0..STARTS {
            for (environment, runs) in ENVIRONMENTS.into_iter().zip(&mut runs) {
                let mut running = self.start(environment, &self.hello_world)?;
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
            ("100 at once: first exec to last exit (us)", self.concurrent_starts()?),
            ("1,000 in a row: first exec to last exit (us)", self.sequential_starts()?),
        ])
    }

    /// Measures the time of [`SEQUENTIAL`] programs that run one after the other.
    fn sequential_starts(&self) -> Result<Row> {
        let time = |environment| {
            let start = Instant::now();
            for _ in 0..SEQUENTIAL {
                self.start(environment, &self.hello_world)?.end()?;
            }
            micros(start.elapsed())
        };
        Ok([time(Environment::Guest)?, time(Environment::Linux)?])
    }

    /// Measures the time of [`CONCURRENT`] programs from the first start to the last exit.
    fn concurrent_starts(&self) -> Result<Row> {
        let time = |environment| {
            let start = Instant::now();
            let programs = (0..CONCURRENT)
                .map(|_| self.start(environment, &self.hello_world))
                .collect::<Result<Vec<_>>>()?;
            for mut program in programs {
                program.end()?;
            }
            micros(start.elapsed())
        };
        Ok([time(Environment::Guest)?, time(Environment::Linux)?])
    }

    /// Measures the memory of programs that wait for input. The memory of a guest includes all its processes.
    fn memory(&self) -> Result<Vec<(&'static str, Row)>> {
        let waiting = |environment, count: usize| {
            let mut programs =
                (0..count).map(|_| self.start(environment, &self.stdin)).collect::<Result<Vec<_>>>()?;
            for program in &mut programs {
                program.write(b"ready\n")?;
                program.first_byte()?;
            }
            thread::sleep(SETTLE_TIME);
            programs.iter().map(|program| Processes::of(program.id())).collect::<Result<Vec<_>>>()
        };
        let sum = |all: &[Processes]| all.iter().map(Processes::total).sum::<u64>();
        let (guest, linux) = (waiting(Environment::Guest, 1)?, waiting(Environment::Linux, 1)?);
        ensure!(
            guest[0].children > 0 && linux[0].children == 0,
            "a guest has no child process, or a plain process has one"
        );
        let concurrent = [waiting(Environment::Guest, CONCURRENT)?, waiting(Environment::Linux, CONCURRENT)?];
        Ok(vec![
            ("Pss of all processes (KiB)", [sum(&guest), sum(&linux)]),
            ("Pss of the uhyve process (KiB)", [guest[0].first, 0]),
            ("100 at once: Pss of all processes (KiB)", concurrent.each_ref().map(|all| sum(all))),
        ])
    }
}

fn micros(time: Duration) -> Result<u64> {
    Ok(u64::try_from(time.as_micros())?)
}

/// The memory of a process and of its children in KiB, as Pss (each process counts a shared page divided by
/// the number of processes that share it).
#[derive(Debug)]
pub(crate) struct Processes {
    first: u64,
    children: u64,
}

impl Processes {
    pub(crate) fn of(process: u32) -> Result<Self> {
        let children = children(process)?.into_iter().map(pss_kib).sum::<Result<u64>>()?;
        Ok(Self { first: pss_kib(process)?, children })
    }

    pub(crate) const fn total(&self) -> u64 {
        self.first + self.children
    }
}

/// Returns the Pss of a process in KiB, from `smaps_rollup` (proc_pid_smaps(5)).
fn pss_kib(process: u32) -> Result<u64> {
    let file = format!("/proc/{process}/smaps_rollup");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"));
    let number = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(number.with_context(|| format!("{file} has no Pss"))?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::pss_kib;

    #[test]
    fn pss_of_this_process_is_read() {
        assert!(pss_kib(std::process::id()).unwrap() > 100);
        assert!(pss_kib(0).is_err());
    }
}
