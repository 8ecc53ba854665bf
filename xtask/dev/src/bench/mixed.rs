//! The suite `mixed`: measures threads, messages, sleeps, locks and files while other threads compute. It
//! compares a guest of uhyve's process engine with a process of this host, both pinned to the same CPUs, and
//! a guest in QEMU with a Linux guest. Guest and Linux take turns.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_machines::qemu::{Board, End, Guest, Input};
use hermit_toolchain::{process, setup};
use serde_json::{Map, Value, json};

use super::beside_linux::BesideLinux;
use super::core::parse;
use super::example;
use super::linux::{self, Linux};
use super::native::median;
use xtask::program;

/// The example that measures.
const PROGRAM: &str = "mixed_bench";

/// Numbers of CPUs, if the host has them.
const CPUS: [usize; 3] = [1, 2, 4];

/// Numbers of computing threads for each CPU.
const BUSY: [usize; 3] = [0, 1, 2];

/// Number of runs of guest and Linux, whose median is the figure.
const RUNS: usize = 3;

/// Duration of the measurement of each work in a run, in seconds.
const SECONDS: &str = "2";

/// Suffix of a figure's name. A name with the suffix is that of the share of the computing threads during the
/// same work.
const COMPUTING: &str = "; computing threads";

/// Time limit of a guest. QEMU on a busy machine takes long to start Linux.
const TIMEOUT: Duration = Duration::from_secs(240);

/// Memory of a guest.
const MEMORY: &str = "256M";

/// Figures of each run, by name.
type Figures = BTreeMap<String, Vec<f64>>;

/// Runs the program in the guest or on Linux, with a number of CPUs and with arguments. Returns the program's
/// output.
type Run<'a> = &'a dyn Fn(usize, &[&str]) -> Result<String>;

/// Measures on the process engine, and prints and returns the figures. Returns null if the engine does not
/// run code at full speed on this host.
pub(super) fn in_process() -> Result<Value> {
    let Some(bench) = BesideLinux::prepare(PROGRAM)? else { return Ok(Value::Null) };
    let guest = |cpus, words: &[&str]| process::output(bench.guest(cpus, MEMORY, TIMEOUT).args(words));
    let linux = |cpus, words: &[&str]| process::output(bench.process(cpus).args(words));
    measure(bench.max_cpus(), &guest, &linux)
}

/// Measures in QEMU, and prints and returns the figures. Returns null if there is no Linux guest.
pub(super) fn in_qemu() -> Result<Value> {
    let linux = match Linux::with_loopback(PROGRAM) {
        Ok(linux) => linux,
        Err(error) => {
            eprintln!("the Linux guest is not available: {error:#}");
            return Ok(Value::Null);
        }
    };
    let (loader, image) = (setup::loader()?, example(PROGRAM)?);
    let guest = |cpus, words: &[&str]| {
        let guest = Guest {
            arguments: words.iter().map(OsString::from).collect(),
            ..Guest::new(loader.clone(), Some(image.clone()), program::name_of(&image))
        };
        let (end, output) = on_machine(guest, cpus)?.capture(Input::Bytes(Vec::new()))?;
        let text = String::from_utf8_lossy(&output).into_owned();
        ensure!(end == End::Exited(0), "the guest ended with {end:?}:\n{text}");
        Ok(text)
    };
    let linux = |cpus, words: &[&str]| {
        let output = linux::run(&on_machine(linux.guest(words), cpus)?)?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    };
    measure(thread::available_parallelism()?.get(), &guest, &linux)
}

/// Returns the guest on the suite's machine type, a PC. On `microvm`, Linux could measure the rate of the
/// time-stamp counter only with the PIT. On a busy host that fails, and Linux stops without a clock.
fn on_machine(guest: Guest, cpus: usize) -> Result<Guest> {
    let memory = MEMORY.parse().map_err(anyhow::Error::msg)?;
    Ok(Guest { board: Board::Pc, memory, cpus: u32::try_from(cpus)?, timeout: Some(TIMEOUT), ..guest })
}

/// Measures with each number of CPUs and of computing threads. Prints and returns the figures.
fn measure(max_cpus: usize, ours: Run<'_>, linux: Run<'_>) -> Result<Value> {
    let mut all = Map::new();
    for cpus in CPUS.into_iter().filter(|&cpus| cpus <= max_cpus) {
        for busy in BUSY.map(|each| each * cpus) {
            let title = format!("CPUs {cpus}, computing threads {busy}");
            println!("{title:<57} {:>13} {:>13} {:>8}  computing: ours, Linux", "ours", "Linux", "ratio");
            let arguments = [&busy.to_string(), "--seconds", SECONDS];
            let rows = rows(&|| ours(cpus, &arguments), &|| linux(cpus, &arguments))?;
            rows.iter().for_each(|(name, row)| print(name, row));
            all.insert(title, Value::Object(rows));
        }
    }
    Ok(Value::Object(all))
}

fn print(name: &str, row: &Value) {
    let figure = |key: &str| row[key].as_f64().unwrap_or(f64::NAN);
    let [ours, linux, ratio] = ["ours", "linux", "ratio"].map(figure);
    let shares = ["computing_ours", "computing_linux"].map(figure);
    let shares =
        if shares.iter().any(|share| share.is_nan()) { String::new() } else { format!("{shares:.2?}") };
    println!("{name:<57} {ours:>13.3} {linux:>13.3} {ratio:>8.2}  {shares}");
}

/// Runs guest and Linux in turns. Returns the rows of the record, by the names of the figures.
fn rows(ours: &dyn Fn() -> Result<String>, linux: &dyn Fn() -> Result<String>) -> Result<Map<String, Value>> {
    let mut figures = [Figures::new(), Figures::new()];
    for _ in 0..RUNS {
        for (run, figures) in [ours, linux].into_iter().zip(&mut figures) {
            for (name, figure) in parse(&run()?) {
                figures.entry(name).or_default().push(figure);
            }
        }
    }
    let names = figures[0].keys().filter(|name| !name.ends_with(COMPUTING));
    let row = |name: &String| {
        let row = row(name, &figures).with_context(|| format!("Linux has no figure of {name:?}"))?;
        Ok((name.clone(), row))
    };
    let rows: Map<_, _> = names.map(row).collect::<Result<_>>()?;
    ensure!(!rows.is_empty(), "the program printed no figures");
    Ok(rows)
}

/// Returns a row of the record: the medians of the guest and of Linux, and their ratio, which is above 1 if
/// the guest is better.
fn row(name: &str, figures: &[Figures; 2]) -> Option<Value> {
    let of = |name: &str| figures.each_ref().map(|figures| figures.get(name).and_then(|runs| median(runs)));
    let ([ours, linux], shares) = (of(name), of(&format!("{name}{COMPUTING}")));
    let (ours, linux) = ours.zip(linux)?;
    let ratio = if name.contains("(us)") { linux / ours } else { ours / linux };
    let mut row = json!({ "ours": ours, "linux": linux, "ratio": ratio });
    if let [Some(ours), Some(linux)] = shares {
        (row["computing_ours"], row["computing_linux"]) = (ours.into(), linux.into());
    }
    Some(row)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::rows;

    #[test]
    fn row_has_medians_the_ratio_and_the_shares_of_the_computing_threads() {
        let number = Cell::new(0);
        let ours = || {
            number.set(number.get() + 1);
            let share = "echo: rounds a second; computing threads\t0.9";
            Ok(format!("echo: rounds a second\t{}\n{share}\nsleep: late by (us), p50\t4\n", number.get()))
        };
        let linux = || {
            let share = "echo: rounds a second; computing threads\t1.1";
            Ok(format!(
                "[ 0.1] Linux\necho: rounds a second\t1\r\n{share}\r\nsleep: late by (us), p50\t2\r\n"
            ))
        };
        let rows = rows(&ours, &linux).unwrap();
        assert_eq!(rows.len(), 2);
        let [echo, sleep] = ["echo: rounds a second", "sleep: late by (us), p50"].map(|name| &rows[name]);
        assert_eq!(["ours", "ratio"].map(|key| echo[key].as_f64()), [Some(2.0), Some(2.0)]);
        assert_eq!(
            ["computing_ours", "computing_linux"].map(|key| echo[key].as_f64()),
            [Some(0.9), Some(1.1)]
        );
        // For times, the shorter one is better.
        assert_eq!(sleep["ratio"].as_f64(), Some(0.5));
        assert_eq!(sleep.get("computing_ours"), None);
    }

    #[test]
    fn figure_that_linux_lacks_is_an_error() {
        assert!(rows(&|| Ok("echo\t1\n".to_owned()), &|| Ok(String::new())).is_err());
        assert!(rows(&|| Ok(String::new()), &|| Ok(String::new())).is_err());
    }
}
