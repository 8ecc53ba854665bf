//! Tests of limits: the size of hello_world, the least memory of hello_world and httpd, the number of
//! instructions until `main`, and the number of instructions of short operations. Each figure may be at most
//! 2 % above the figure that `limits.txt` records.
//!
//! The figures hardly depend on the host: QEMU emulates the processor, counts its instructions as time, and
//! draws the same random numbers each time. Only the paths of source files, which panics print, differ
//! between hosts. They change the size of an image by less than 1 KiB.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use hermit_machines::qemu::Guest;
use hermit_toolchain::{setup, workspace};

use super::machine_types::Qemu;
use super::platform::LIMIT;
use super::programs::serves;
use super::schedule::Tests;
use crate::bench;
use crate::bench::guest_start::{counting, exits_with_0, instructions, least_memory_mib, run};
use crate::bench::operations::{CORE, Count, FS, Operation};
use xtask::program;

/// Contents of the record: a line for each figure, with its name, a tab, and the figure.
const RECORD: &str = include_str!("limits.txt");

/// Path of the record in the workspace.
const RECORD_PATH: &str = "xtask/dev/src/test/limits.txt";

/// Command that writes the record.
const RECORD_COMMAND: &str = "cargo xtask figures --record-limits";

/// Maximum growth of a figure, as a factor.
const MAX_GROWTH: f64 = 1.02;

/// Memory of the guest that measures operations.
const MEMORY: &str = "256M";

/// Operations on large blocks, which are left out. They take longer than all others, and most of their
/// instructions only copy data.
const LARGE: [&str; 2] = ["read-1m", "write-1m"];

/// Time limit of a guest that has too little memory.
const SHORT_TIMEOUT: Duration = Duration::from_secs(20);

/// Seed of QEMU's random numbers.
const SEED: usize = 1;

/// Figures by name.
type Figures = BTreeMap<String, f64>;

/// The loader; uhyve, which connects guests to the network; and the images that are measured.
#[derive(Debug)]
pub(crate) struct Images {
    loader: PathBuf,
    uhyve: PathBuf,
    hello_world: PathBuf,
    httpd: PathBuf,
    boot_mark: PathBuf,
    core_bench: PathBuf,
}

/// Function that measures one or more figures.
type Measurement = fn(&Images) -> Result<Figures>;

/// Measurements by name.
const MEASUREMENTS: [(&str, Measurement); 5] = [
    ("size of hello_world", Images::size),
    ("least memory of hello_world", Images::memory),
    ("least memory of httpd", Images::server_memory),
    ("instructions until main", Images::start),
    ("instructions of short paths", Images::short_paths),
];

pub(super) fn test<'a>(tests: &mut Tests<'a>, qemu: &'a Qemu<'_>) {
    for (name, measure) in MEASUREMENTS {
        tests.add(format!("limits: {name}"), move || {
            let image = |name| qemu.image(name);
            let images = Images {
                loader: qemu.loader.clone(),
                uhyve: qemu.uhyve.clone(),
                hello_world: image("hello_world"),
                httpd: image("httpd"),
                boot_mark: image("boot_mark"),
                core_bench: image("core_bench"),
            };
            compare(&parse(RECORD), &measure(&images)?)
        });
    }
}

/// Measures all figures, and writes them to the record.
pub(crate) fn record() -> Result<()> {
    let images = Images {
        loader: setup::loader()?,
        uhyve: setup::uhyve()?,
        hello_world: bench::example("hello_world")?,
        httpd: bench::example("httpd")?,
        boot_mark: bench::example("boot_mark")?,
        core_bench: bench::example("core_bench")?,
    };
    let mut text = String::new();
    for (name, measure) in MEASUREMENTS {
        let figures = measure(&images).with_context(|| format!("cannot measure the {name}"))?;
        text.extend(figures.iter().map(|(name, figure)| format!("{name}\t{figure}\n")));
    }
    fs::write(workspace::root().join(RECORD_PATH), text)
        .with_context(|| format!("cannot write {RECORD_PATH}"))?;
    eprintln!("figures: {RECORD_PATH} is written");
    Ok(())
}

/// Fails if a figure is more than [`MAX_GROWTH`] times the recorded figure, or is not recorded.
fn compare(recorded: &Figures, figures: &Figures) -> Result<()> {
    let wrong = figures.iter().filter_map(|(name, figure)| match recorded.get(name) {
        None => Some(format!("\n  {name}: not recorded, now {figure}")),
        Some(limit) if *figure > limit * MAX_GROWTH => {
            Some(format!("\n  {name}: recorded {limit}, now {figure}"))
        }
        Some(_) => None,
    });
    let wrong: String = wrong.collect();
    ensure!(
        wrong.is_empty(),
        "grown by more than 2 %:{wrong}\nIf that is intended, `{RECORD_COMMAND}` records today's figures in {RECORD_PATH}"
    );
    Ok(())
}

/// Returns the figures in the lines that consist of a name, a tab and a figure.
fn parse(text: &str) -> Figures {
    let lines = text.lines().filter_map(|line| line.split_once('\t'));
    lines.filter_map(|(name, figure)| Some((name.to_owned(), figure.trim().parse().ok()?))).collect()
}

/// Returns the operations that are measured.
fn operations() -> impl Iterator<Item = &'static Operation> {
    let is_measured = |operation: &&Operation| {
        matches!(operation.count, Count::Any | Count::Max(_)) && !LARGE.contains(&operation.word)
    };
    CORE.iter().chain(&FS).filter(is_measured)
}

impl Images {
    /// Returns the size of hello_world without symbols and debugging information, in bytes.
    fn size(&self) -> Result<Figures> {
        let size = u32::try_from(bench::stripped_size(&self.hello_world)?)?;
        Ok(Figures::from([("hello_world, stripped (bytes)".to_owned(), size.into())]))
    }

    /// Returns the least memory in MiB with which hello_world exits with 0. The search begins at 2 MiB,
    /// because QEMU requires more than 1 MiB.
    fn memory(&self) -> Result<Figures> {
        let least = least_memory_mib(2..=16, |memory| {
            let guest = Guest { memory, timeout: Some(SHORT_TIMEOUT), ..self.guest(&self.hello_world, &[]) };
            Ok(exits_with_0(&guest))
        })?;
        Ok(Figures::from([("hello_world, least memory (MiB)".to_owned(), least.into())]))
    }

    /// Returns the least memory in MiB with which httpd answers a request and exits with 0, on the machine
    /// type `pc` with a network device.
    fn server_memory(&self) -> Result<Figures> {
        let least = least_memory_mib(2..=16, |memory| {
            serves(&self.uhyve, Guest { memory, ..self.guest(&self.httpd, &[]) })
        })?;
        Ok(Figures::from([("httpd, least memory (MiB)".to_owned(), least.into())]))
    }

    /// Returns the number of instructions from reset to `main` on microvm.
    fn start(&self) -> Result<Figures> {
        let number = instructions(&counting(self.guest(&self.boot_mark, &[]), SEED))?;
        Ok(Figures::from([("reset to main, microvm".to_owned(), u32::try_from(number)?.into())]))
    }

    /// Returns the number of instructions of each operation.
    fn short_paths(&self) -> Result<Figures> {
        let words: Vec<&str> = operations().map(|operation| operation.word).collect();
        let guest = counting(self.guest(&self.core_bench, &words), SEED);
        let output = run(&Guest { memory: MEMORY.parse().map_err(anyhow::Error::msg)?, ..guest })?;
        let printed = parse(&output);
        let figure = |title: &str| match printed.get(title) {
            Some(figure) => Ok((title.to_owned(), *figure)),
            None => bail!("core_bench did not print {title:?}:\n{output}"),
        };
        operations().map(|operation| figure(operation.title)).collect()
    }

    fn guest(&self, image: &Path, arguments: &[&str]) -> Guest {
        Guest {
            arguments: arguments.iter().map(OsString::from).collect(),
            timeout: Some(LIMIT),
            ..Guest::new(self.loader.clone(), Some(image.to_owned()), program::name_of(image))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Figures, RECORD, compare, operations, parse};

    fn figures(figure: f64) -> Figures {
        Figures::from([("seek".to_owned(), figure)])
    }

    #[test]
    fn growth_by_more_than_two_percent_fails_and_names_command_and_figures() {
        let recorded = parse("seek\t100\n");
        for figure in [50.0, 100.0, 102.0] {
            compare(&recorded, &figures(figure)).unwrap();
        }
        let message = compare(&recorded, &figures(103.0)).unwrap_err().to_string();
        let texts = ["seek: recorded 100, now 103", "cargo xtask figures --record-limits"];
        assert!(texts.iter().all(|text| message.contains(text)), "{message}");
    }

    #[test]
    fn figure_that_is_not_recorded_fails() {
        assert!(compare(&Figures::new(), &figures(1.0)).is_err());
    }

    #[test]
    fn record_has_each_operation_and_nothing_that_is_not_measured() {
        let recorded = parse(RECORD);
        assert!(operations().all(|operation| recorded.contains_key(operation.title)));
        assert_eq!(recorded.len(), operations().count() + 4);
    }
}
