//! The suite `hypervisor` on KVM: uhyve beside QEMU, with the same image on the same machine in the same minutes.
//!
//! Where KVM merely emulates processors, the images have no floating-point instructions.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_interface::image;
use hermit_interface::memory_size::MemorySize;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::running::Running;
use super::{RUNS, example_with, median, stripped_size};
use xtask::qemu::{Accelerator, Guest, QEMU};
use xtask::target::FloatAbi;
use xtask::uhyve::{self, Engine, Uhyve};
use xtask::{process, program, setup};

/// How long a guest runs before its monitor is looked at.
const SETTLED: Duration = Duration::from_millis(500);

/// Says that it runs on the first serial port of a PC and on uhyve's port for text, then waits for ever:
/// `mov dx, 0x3f8; mov al, 'x'; out dx, al; out 0xe9, al; hlt; jmp $-1`.
const SIGN_OF_LIFE: [u8; 12] = [0x66, 0xba, 0xf8, 0x03, 0xb0, b'x', 0xee, 0xe6, 0xe9, 0xf4, 0xeb, 0xfd];

/// The same in 16-bit code, without uhyve's port: what a PC's processor finds when it is switched on.
const SIGN_OF_LIFE_16: [u8; 9] = [0xba, 0xf8, 0x03, 0xb0, b'x', 0xee, 0xf4, 0xeb, 0xfd];

/// The size of a firmware's file, whose last 16 bytes are what the processor starts with.
const FIRMWARE_SIZE: usize = 64 << 10;

/// The file of an image that gives a sign of life.
const ENTRY: &str = "entry";

/// The file of a firmware that gives one.
const FIRMWARE: &str = "firmware";

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Monitor {
    Uhyve,
    Qemu(Accelerator),
}

const MONITORS: [Monitor; 3] =
    [Monitor::Uhyve, Monitor::Qemu(Accelerator::Kvm), Monitor::Qemu(Accelerator::Tcg)];

/// A figure of each monitor.
type Row = [u64; MONITORS.len()];

/// What is booted.
#[derive(Clone, Copy, Debug)]
enum Boot {
    /// Firmware that gives a sign of life first thing, in place of QEMU's; for uhyve the same as `Entry`.
    Firmware,
    /// hello_world, with a sign of life in place of the kernel's first instructions.
    Entry,
    /// hello_world as it is.
    Greeting,
    /// `threads tick`, which runs for ten seconds.
    Ticks,
}

/// Measures, prints and returns all figures.
pub(super) fn main() -> Result<Value> {
    if !Path::new("/dev/kvm").exists() {
        eprintln!("hypervisor: not available: there is no /dev/kvm");
        return Ok(Value::Null);
    }
    let bench = Bench::prepare()?;
    println!("{:<48} {:>11} {:>11} {:>11}", "monitor", "uhyve, KVM", "QEMU, KVM", "QEMU, TCG");
    let mut all = serde_json::Map::new();
    for (name, [uhyve, kvm, tcg]) in bench.times()?.into_iter().chain(bench.sizes()?) {
        println!("{name:<48} {uhyve:>11} {kvm:>11} {tcg:>11}");
        all.insert(name.to_owned(), json!({ "uhyve, KVM": uhyve, "QEMU, KVM": kvm, "QEMU, TCG": tcg }));
    }
    all.insert("soft-float images".to_owned(), json!(bench.float == FloatAbi::Soft));
    Ok(Value::Object(all))
}

/// The programs, and files made of them.
#[derive(Debug)]
struct Bench {
    uhyve: PathBuf,
    loader: PathBuf,
    hello_world: PathBuf,
    threads: PathBuf,
    float: FloatAbi,
    /// Holds [`ENTRY`] and [`FIRMWARE`].
    folder: TempDir,
}

impl Bench {
    fn prepare() -> Result<Self> {
        let uhyve = Uhyve::check(setup::uhyve()?)?;
        let float = if uhyve.works(Engine::Kvm) { FloatAbi::Hard } else { FloatAbi::Soft };
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let hello_world = example_with("hello_world", float)?;
        fs::write(folder.path().join(ENTRY), with_sign_of_life(&hello_world)?)?;
        fs::write(folder.path().join(FIRMWARE), firmware())?;
        Ok(Self {
            uhyve: uhyve.program,
            loader: setup::loader()?,
            hello_world,
            threads: example_with("threads", float)?,
            float,
            folder,
        })
    }

    /// Microseconds from the start of the monitor. The monitors take turns, so that all meet the same load.
    fn times(&self) -> Result<Vec<(&'static str, Row)>> {
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            for monitor in MONITORS {
                let [firmware, entry] =
                    [Boot::Firmware, Boot::Entry].map(|boot| self.first_byte(monitor, boot));
                let (greeting, end) = self.greeting(monitor)?;
                runs.push([firmware?, entry?, greeting, end]);
            }
        }
        let names = [
            "exec to the guest's first instruction (us)",
            "exec to the kernel's first instruction (us)",
            "exec to the program's first output (us)",
            "exec to exit (us)",
        ];
        let of = |monitor: usize, figure: usize| {
            let runs = runs.iter().skip(monitor).step_by(MONITORS.len());
            median(runs.map(|run: &[u64; 4]| run[figure]).collect())
        };
        let medians = |figure| std::array::from_fn(|monitor| of(monitor, figure));
        Ok(names.into_iter().enumerate().map(|(figure, name)| (name, medians(figure))).collect())
    }

    fn first_byte(&self, monitor: Monitor, boot: Boot) -> Result<u64> {
        microseconds(self.start(monitor, boot)?.first_byte()?)
    }

    /// Until the first byte of the greeting, and until the monitor has ended.
    fn greeting(&self, monitor: Monitor) -> Result<(u64, u64)> {
        let mut running = self.start(monitor, Boot::Greeting)?;
        Ok((microseconds(running.first_byte()?)?, microseconds(running.end()?)?))
    }

    /// What the monitors take while a guest runs.
    fn sizes(&self) -> Result<Vec<(&'static str, Row)>> {
        let mut figures: Vec<Footprint> = Vec::new();
        for monitor in MONITORS {
            let mut running = self.start(monitor, Boot::Ticks)?;
            running.first_byte()?;
            thread::sleep(SETTLED);
            figures.push(Footprint::of(running.id())?);
        }
        let row = |figure: fn(&Footprint) -> u64| std::array::from_fn(|monitor| figure(&figures[monitor]));
        let qemu = fs::metadata(process::find(QEMU).ok_or_else(|| setup::packages::QEMU.missing())?)?.len();
        let size = stripped_size(&self.uhyve)?;
        Ok(vec![
            ("Rss without guest memory (KiB)", row(|footprint| footprint.resident)),
            ("Pss without guest memory (KiB)", row(|footprint| footprint.proportional)),
            ("Rss of guest memory (KiB)", row(|footprint| footprint.guest)),
            ("threads", row(|footprint| footprint.threads)),
            ("open file descriptors", row(|footprint| footprint.descriptors)),
            ("executable, stripped (bytes)", [size, qemu, qemu]),
        ])
    }

    fn start(&self, monitor: Monitor, boot: Boot) -> Result<Running> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let command = match monitor {
            Monitor::Uhyve => self.uhyve(boot),
            Monitor::Qemu(accelerator) => self.qemu(boot, accelerator, folder.path())?,
        };
        Running::start_with(command, Some(folder))
    }

    fn uhyve(&self, boot: Boot) -> Command {
        let mut command = uhyve::command(&self.uhyve, Engine::Kvm);
        command.args(["--memory", &MemorySize::default().to_string()]);
        command.arg(self.image(boot)).arg("--").args(arguments(boot));
        command
    }

    fn qemu(&self, boot: Boot, accelerator: Accelerator, folder: &Path) -> Result<Command> {
        let image = self.image(boot);
        let name = program::name_of(&image);
        let mut guest = Guest {
            accelerator,
            arguments: arguments(boot),
            ..Guest::new(self.loader.clone(), Some(image), name)
        };
        if let Boot::Firmware = boot {
            guest.more = vec!["-bios".to_owned(), self.file(FIRMWARE).display().to_string()];
        }
        guest.command(folder)
    }

    fn image(&self, boot: Boot) -> PathBuf {
        match boot {
            Boot::Firmware | Boot::Entry => self.file(ENTRY),
            Boot::Greeting => self.hello_world.clone(),
            Boot::Ticks => self.threads.clone(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn arguments(boot: Boot) -> Vec<OsString> {
    if let Boot::Ticks = boot { vec!["tick".into()] } else { Vec::new() }
}

/// An image that gives a sign of life in place of its kernel's first instructions.
fn with_sign_of_life(file: &Path) -> Result<Vec<u8>> {
    let mut bytes = program::check(file)?;
    let image = image::check(&bytes)?;
    let offset = image.segments().find_map(|segment| {
        let inside = usize::try_from(image.entry.checked_sub(segment.start)?).ok()?;
        let instructions = segment.data.get(inside..)?.get(..SIGN_OF_LIFE.len())?;
        Some(instructions.as_ptr().addr() - bytes.as_ptr().addr())
    });
    let start = offset.context("the image has no code at its entry")?;
    bytes[start..][..SIGN_OF_LIFE.len()].copy_from_slice(&SIGN_OF_LIFE);
    Ok(bytes)
}

fn firmware() -> Vec<u8> {
    let mut bytes = vec![0; FIRMWARE_SIZE];
    bytes[FIRMWARE_SIZE - 16..][..SIGN_OF_LIFE_16.len()].copy_from_slice(&SIGN_OF_LIFE_16);
    bytes
}

fn microseconds(time: Duration) -> Result<u64> {
    Ok(u64::try_from(time.as_micros())?)
}

/// What a monitor takes; memory in KiB.
#[derive(Debug, Default, PartialEq, Eq)]
struct Footprint {
    resident: u64,
    proportional: u64,
    guest: u64,
    threads: u64,
    descriptors: u64,
}

impl Footprint {
    fn of(process: u32) -> Result<Self> {
        let folder = PathBuf::from(format!("/proc/{process}"));
        let count = |name| -> Result<u64> { Ok(u64::try_from(fs::read_dir(folder.join(name))?.count())?) };
        let mut footprint = Self { threads: count("task")?, descriptors: count("fd")?, ..Self::default() };
        footprint.add(&fs::read_to_string(folder.join("smaps"))?, MemorySize::default().bytes() >> 10)?;
        Ok(footprint)
    }

    /// Adds the mappings of `/proc/PID/smaps` (proc_pid_smaps(5)). The one of the guest's size is its memory.
    fn add(&mut self, mappings: &str, guest_size: u64) -> Result<()> {
        let (mut is_guest, mut guests) = (false, 0);
        for line in mappings.lines() {
            let mut words = line.split_ascii_whitespace();
            let (Some(name), Some(Ok(size))) = (words.next(), words.next().map(str::parse::<u64>)) else {
                continue;
            };
            match name {
                "Size:" => {
                    is_guest = size == guest_size;
                    guests += u32::from(is_guest);
                }
                "Rss:" if is_guest => self.guest += size,
                "Rss:" => self.resident += size,
                "Pss:" if !is_guest => self.proportional += size,
                _ => {}
            }
        }
        ensure!(guests == 1, "{guests} mappings have the size of the guest's memory");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Footprint;

    const MAPPINGS: &str = "\
7f0000000000-7f0008000000 rw-p 00000000 00:00 0
Size:             131072 kB
Rss:                2048 kB
Pss:                2048 kB
VmFlags: rd wr mr mw me ac nr sd
55e05d799000-55e05d7ea000 r--p 00000000 fe:00 326269                     /usr/bin/uhyve
Size:                324 kB
Rss:                 200 kB
Pss:                  50 kB
";

    #[test]
    fn mappings_are_told_apart() {
        let mut footprint = Footprint::default();
        footprint.add(MAPPINGS, 131_072).unwrap();
        let expected = Footprint { guest: 2048, resident: 200, proportional: 50, ..Footprint::default() };
        assert_eq!(footprint, expected);
        assert!(Footprint::default().add(MAPPINGS, 4096).is_err());
    }
}
