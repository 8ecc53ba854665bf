//! The suite `boot`: image size, minimum memory, and instructions and time until the program's `main`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use hermit_machines::qemu::{Board, Guest};
use hermit_toolchain::setup;
use serde_json::{Value, json};

use super::guest_start::{counting, exits_with_0, instructions, least_memory_mib};
use super::{RUNS, example, median, stripped_size};
use hermit_interface::memory_size::MemorySize;
use xtask::program;

/// Time limit of a guest.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Time limit of a guest that may have too little memory.
const SHORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Measures all figures, prints and returns them.
pub(super) fn main() -> Result<Value> {
    let figures = Bench::prepare()?.boot()?;
    for (name, value) in figures.as_object().into_iter().flatten() {
        println!("{name:<44} {value:>12}");
    }
    Ok(figures)
}

/// The images that are measured.
#[derive(Debug)]
struct Bench {
    loader: PathBuf,
    hello_world: PathBuf,
    boot_mark: PathBuf,
}

impl Bench {
    fn prepare() -> Result<Self> {
        Ok(Self {
            loader: setup::loader()?,
            hello_world: example("hello_world")?,
            boot_mark: example("boot_mark")?,
        })
    }

    fn boot(&self) -> Result<Value> {
        let size = stripped_size(&self.hello_world)?;
        let memory = least_memory_mib(1..=64, |memory| {
            let guest = Guest { memory, timeout: Some(SHORT_TIMEOUT), ..self.guest(&self.hello_world) };
            Ok(exits_with_0(&guest))
        })?;
        let large: MemorySize = "4G".parse().map_err(anyhow::Error::msg)?;
        let normal = MemorySize::default();
        let instructions = |memory, board| {
            let guest = Guest { memory, board, ..self.guest(&self.boot_mark) };
            measure(|run| instructions(&counting(guest.clone(), run)))
        };
        // Without an image, the loader only prints an error. So this measures the time of QEMU, the firmware
        // and the switch to 64-bit mode alone.
        let time = |image, board| measure(|_| self.microseconds(image, board));
        let image = Some(self.hello_world.as_path());
        Ok(json!({
            "hello_world, stripped (bytes)": size,
            "minimum memory of hello_world (MiB)": memory,
            "instructions, reset to main, microvm": instructions(normal, Board::Microvm)?,
            "instructions, reset to main, pc": instructions(normal, Board::Pc)?,
            "instructions, reset to main, pc, 4 GiB": instructions(large, Board::Pc)?,
            "exec to the loader's first output, microvm (us)": time(None, Board::Microvm)?,
            "exec to the program's first output, microvm (us)": time(image, Board::Microvm)?,
            "exec to the loader's first output, pc (us)": time(None, Board::Pc)?,
            "exec to the program's first output, pc (us)": time(image, Board::Pc)?,
        }))
    }

    fn guest(&self, image: &Path) -> Guest {
        Guest {
            timeout: Some(TIMEOUT),
            ..Guest::new(self.loader.clone(), Some(image.to_owned()), program::name_of(image))
        }
    }

    /// Returns the time from the start of QEMU to the first byte of output, in microseconds.
    fn microseconds(&self, image: Option<&Path>, board: Board) -> Result<u64> {
        let guest = Guest { image: image.map(Path::to_owned), board, ..self.guest(&self.hello_world) };
        Ok(u64::try_from(guest.time_to_output()?.as_micros())?)
    }
}

/// Returns the median of [`RUNS`] runs. Each run gets its number.
fn measure(run: impl Fn(usize) -> Result<u64>) -> Result<u64> {
    (0..RUNS).map(run).collect::<Result<_>>().map(median)
}
