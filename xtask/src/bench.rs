//! `cargo xtask bench`: what things cost, measured and compared in one run.
//!
//! There is one suite so far, `boot`: what it takes to get to the program's `main`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::build::{self, Options};
use crate::qemu::{End, Guest, Input};
use crate::setup::toolchain::Toolchain;
use crate::size::MemorySize;
use crate::{process, program, setup, workspace};

/// Runs of which the median counts.
const RUNS: usize = 11;

const LIMIT: Duration = Duration::from_secs(60);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What to measure; nothing named: everything
    #[arg(value_enum, value_name = "SUITE")]
    suites: Vec<Suite>,
    /// Also write the figures to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Suite {
    /// From reset to main: image size, least memory, instructions, time
    Boot,
}

pub(crate) fn main(arguments: &Arguments) -> Result<()> {
    setup::ensure_with_qemu()?;
    let bench = Bench::prepare()?;
    let figures = bench.boot()?;
    for (name, value) in figures.as_object().into_iter().flatten() {
        println!("{name:<44} {value:>12}");
    }
    if let Some(file) = &arguments.json {
        let text = serde_json::to_string_pretty(&json!({ "boot": figures }))?;
        fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))?;
    }
    Ok(())
}

/// The programs that are measured.
#[derive(Debug)]
struct Bench {
    loader: PathBuf,
    hello_world: PathBuf,
    boot_mark: PathBuf,
}

impl Bench {
    fn prepare() -> Result<Self> {
        let example = |name: &str| {
            let folder = workspace::example(name).with_context(|| format!("there is no example {name}"))?;
            build::guest_program(&folder, &Options { release: true, ..Options::default() })
        };
        Ok(Self {
            loader: setup::loader()?,
            hello_world: example("hello_world")?,
            boot_mark: example("boot_mark")?,
        })
    }

    fn boot(&self) -> Result<serde_json::Value> {
        let size = stripped_size(&self.hello_world)?;
        let memory = self.least_memory()?;
        let large: MemorySize = "4G".parse().map_err(anyhow::Error::msg)?;
        let instructions = median(|| self.instructions(MemorySize::default()))?;
        let instructions_large = median(|| self.instructions(large))?;
        // Without an image the loader ends the machine at once: QEMU, firmware and the way into 64-bit mode alone.
        let empty = median(|| self.microseconds(None))?;
        let greeting = median(|| self.microseconds(Some(&self.hello_world)))?;
        Ok(json!({
            "hello_world, stripped (bytes)": size,
            "least memory of hello_world (MiB)": memory,
            "instructions, reset to main, 128 MiB": instructions,
            "instructions, reset to main, 4 GiB": instructions_large,
            "QEMU to its end, loader alone (us)": empty,
            "QEMU to its end, hello_world (us)": greeting,
        }))
    }

    fn guest(&self, image: &Path) -> Guest {
        Guest {
            timeout: Some(LIMIT),
            ..Guest::new(self.loader.clone(), Some(image.to_owned()), program::name_of(image))
        }
    }

    /// The least memory in MiB with which hello_world exits with 0.
    fn least_memory(&self) -> Result<u64> {
        let boots = |mebibytes: &u64| {
            let memory = MemorySize::unchecked_mebibytes(*mebibytes);
            let guest =
                Guest { memory, timeout: Some(Duration::from_secs(5)), ..self.guest(&self.hello_world) };
            matches!(guest.capture(Input::Bytes(Vec::new())), Ok((End::Exited(0), _)))
        };
        (1..=64).find(boots).context("hello_world does not boot with 64 MiB")
    }

    /// Instructions from reset to `main`, counted by QEMU.
    fn instructions(&self, memory: MemorySize) -> Result<u64> {
        let icount = vec!["-icount".to_owned(), "shift=0".to_owned()];
        let guest = Guest { memory, more: icount, ..self.guest(&self.boot_mark) };
        let (end, output) = guest.capture(Input::Bytes(Vec::new()))?;
        let text = String::from_utf8_lossy(&output);
        ensure!(end == End::Exited(0), "boot_mark ended with {end:?}:\n{text}");
        let number = text.lines().find_map(|line| line.strip_prefix("counter at main: "));
        number.context("boot_mark printed no number")?.trim().parse().context("boot_mark printed no number")
    }

    /// Microseconds from the start of QEMU to its end.
    fn microseconds(&self, image: Option<&Path>) -> Result<u64> {
        let guest = Guest { image: image.map(Path::to_owned), ..self.guest(&self.hello_world) };
        let start = std::time::Instant::now();
        let (end, _) = guest.capture(Input::Bytes(Vec::new()))?;
        let time = start.elapsed();
        if !matches!(end, End::Exited(_)) {
            bail!("the guest ended with {end:?}");
        }
        Ok(u64::try_from(time.as_micros())?)
    }
}

fn median(measure: impl Fn() -> Result<u64>) -> Result<u64> {
    let mut values = (0..RUNS).map(|_| measure()).collect::<Result<Vec<_>>>()?;
    values.sort_unstable();
    Ok(values[RUNS / 2])
}

/// The size of a file without symbols and debugging information.
fn stripped_size(image: &Path) -> Result<u64> {
    let folder = tempfile::TempDir::new().context("cannot make a temporary folder")?;
    let stripped = folder.path().join("stripped");
    let toolchain = Toolchain::detect()?;
    let objcopy = toolchain.host_tool("rust-objcopy")?;
    let mut command = Command::new(objcopy);
    command.env("LD_LIBRARY_PATH", toolchain.sysroot.join("lib"));
    process::run(command.arg("--strip-all").arg(image).arg(&stripped))?;
    Ok(fs::metadata(&stripped)?.len())
}
