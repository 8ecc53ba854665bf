//! The suite `hypervisor` on KVM: compares uhyve with QEMU, with the same images on the same host. The two
//! take turns.
//!
//! The start of a guest consists of the VMM's own start, firmware, the loader, the kernel and the program. To
//! measure the parts, the suite boots guests that write their first byte at different points, and takes the
//! time from exec until the byte arrives. These guests are a firmware of a few instructions, an image with
//! such instructions at its entry, and the unchanged hello_world. While another guest runs, the suite reads
//! the VMM's memory, threads and files from `/proc`. If KVM emulates in software, soft-float images are used.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hermit_interface::image;
use hermit_interface::memory_size::MemorySize;
use hermit_machines::qemu::{Accelerator, Guest, QEMU};
use hermit_machines::uhyve::{self, Engine, Uhyve};
use hermit_toolchain::target::FloatAbi;
use hermit_toolchain::{process, setup};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::running::RunningProcess;
use super::{RUNS, example_with, median, stripped_size};
use xtask::program;

/// Time for which a guest runs before the memory of its VMM is measured.
const SETTLE_TIME: Duration = Duration::from_millis(500);

/// Code that writes a byte to the first serial port of a PC and to uhyve's text port, then halts forever:
/// `mov dx, 0x3f8; mov al, 'x'; out dx, al; out 0xe9, al; hlt; jmp $-1`.
const FIRST_BYTE_CODE: [u8; 12] = [0x66, 0xba, 0xf8, 0x03, 0xb0, b'x', 0xee, 0xe6, 0xe9, 0xf4, 0xeb, 0xfd];

/// 16-bit code for the reset vector, which writes a byte to the first serial port of a PC, then halts
/// forever.
const FIRST_BYTE_CODE_16: [u8; 9] = [0xba, 0xf8, 0x03, 0xb0, b'x', 0xee, 0xf4, 0xeb, 0xfd];

/// Size of the firmware's file; its last 16 bytes are at the reset vector.
const FIRMWARE_SIZE: usize = 64 << 10;

/// Name of the image with [`FIRST_BYTE_CODE`] at its entry.
const ENTRY: &str = "entry";

/// Name of the firmware with [`FIRST_BYTE_CODE_16`] at the reset vector.
const FIRMWARE: &str = "firmware";

/// A VMM that is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MeasuredVmm {
    Uhyve,
    Qemu(Accelerator),
}

const VMMS: [MeasuredVmm; 3] =
    [MeasuredVmm::Uhyve, MeasuredVmm::Qemu(Accelerator::Kvm), MeasuredVmm::Qemu(Accelerator::Tcg)];

/// A figure of each VMM.
type Row = [u64; VMMS.len()];

/// A guest that is booted.
#[derive(Clone, Copy, Debug)]
enum BootedGuest {
    /// A firmware, in place of QEMU's own, that writes a byte at once. uhyve has no firmware, and boots
    /// `Entry` instead.
    Firmware,
    /// hello_world, whose first instructions in the kernel are replaced by code that writes a byte.
    Entry,
    /// hello_world, unchanged.
    Greeting,
    /// `threads tick`, which runs for ten seconds.
    Ticks,
}

/// Measures all figures, and prints and returns them. Returns null if the host has no KVM.
pub(super) fn main() -> Result<Value> {
    if !Path::new("/dev/kvm").exists() {
        eprintln!("hypervisor: not available: there is no /dev/kvm");
        return Ok(Value::Null);
    }
    let bench = Bench::prepare()?;
    println!("{:<48} {:>11} {:>11} {:>11}", "figure", "uhyve, KVM", "QEMU, KVM", "QEMU, TCG");
    let mut all = serde_json::Map::new();
    for (name, [uhyve, kvm, tcg]) in bench.times()?.into_iter().chain(bench.sizes()?) {
        println!("{name:<48} {uhyve:>11} {kvm:>11} {tcg:>11}");
        all.insert(name.to_owned(), json!({ "uhyve, KVM": uhyve, "QEMU, KVM": kvm, "QEMU, TCG": tcg }));
    }
    all.insert("soft-float images".to_owned(), json!(bench.float == FloatAbi::Soft));
    Ok(Value::Object(all))
}

/// The programs, and files derived from them.
#[derive(Debug)]
struct Bench {
    uhyve: PathBuf,
    loader: PathBuf,
    hello_world: PathBuf,
    threads: PathBuf,
    float: FloatAbi,
    /// Folder of the files [`ENTRY`] and [`FIRMWARE`].
    folder: TempDir,
}

impl Bench {
    fn prepare() -> Result<Self> {
        let uhyve = Uhyve::check(setup::uhyve()?)?;
        let float = if uhyve.works(Engine::Kvm) { FloatAbi::Hard } else { FloatAbi::Soft };
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let hello_world = example_with("hello_world", float)?;
        fs::write(folder.path().join(ENTRY), with_first_byte_code(&hello_world)?)?;
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

    /// Measures times from the start of the VMM, in microseconds. The VMMs take turns, so that the load of
    /// the host is the same for all.
    fn times(&self) -> Result<Vec<(&'static str, Row)>> {
        let mut runs = Vec::new();
        for _ in 0..RUNS {
            for vmm in VMMS {
                let first_byte =
                    |boot| self.first_byte(vmm, boot).with_context(|| format!("{vmm:?}, {boot:?}"));
                let (firmware, entry) = (first_byte(BootedGuest::Firmware)?, first_byte(BootedGuest::Entry)?);
                let (greeting, end) = self.greeting(vmm).with_context(|| format!("{vmm:?}, greeting"))?;
                runs.push([firmware, entry, greeting, end]);
            }
        }
        let names = [
            "exec to the guest's first instruction (us)",
            "exec to the kernel's first instruction (us)",
            "exec to the program's first output (us)",
            "exec to exit (us)",
        ];
        let of = |vmm: usize, figure: usize| {
            let runs = runs.iter().skip(vmm).step_by(VMMS.len());
            median(runs.map(|run: &[u64; 4]| run[figure]).collect())
        };
        let medians = |figure| std::array::from_fn(|vmm| of(vmm, figure));
        Ok(names.into_iter().enumerate().map(|(figure, name)| (name, medians(figure))).collect())
    }

    /// Returns the time to the first byte of output, in microseconds.
    fn first_byte(&self, vmm: MeasuredVmm, boot: BootedGuest) -> Result<u64> {
        microseconds(self.start(vmm, boot)?.first_byte()?)
    }

    /// Returns the times to the first byte of the greeting and to the exit of the VMM, in microseconds.
    fn greeting(&self, vmm: MeasuredVmm) -> Result<(u64, u64)> {
        let mut running = self.start(vmm, BootedGuest::Greeting)?;
        Ok((microseconds(running.first_byte()?)?, microseconds(running.end()?)?))
    }

    /// Measures memory, threads and open files of the VMMs while a guest runs.
    fn sizes(&self) -> Result<Vec<(&'static str, Row)>> {
        let mut figures: Vec<Footprint> = Vec::new();
        for vmm in VMMS {
            let mut running = self.start(vmm, BootedGuest::Ticks)?;
            running.first_byte()?;
            thread::sleep(SETTLE_TIME);
            figures.push(Footprint::of(running.id())?);
        }
        let row = |figure: fn(&Footprint) -> u64| std::array::from_fn(|vmm| figure(&figures[vmm]));
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

    fn start(&self, vmm: MeasuredVmm, boot: BootedGuest) -> Result<RunningProcess> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let command = match vmm {
            MeasuredVmm::Uhyve => self.uhyve(boot),
            MeasuredVmm::Qemu(accelerator) => self.qemu(boot, accelerator, folder.path())?,
        };
        RunningProcess::start_with(command, Some(folder))
    }

    fn uhyve(&self, boot: BootedGuest) -> Command {
        let mut command = uhyve::command(&self.uhyve, Engine::Kvm);
        command.args(["--memory", &MemorySize::default().to_string()]);
        command.arg(self.image(boot)).arg("--").args(arguments(boot));
        command
    }

    fn qemu(&self, boot: BootedGuest, accelerator: Accelerator, folder: &Path) -> Result<Command> {
        let image = self.image(boot);
        let name = program::name_of(&image);
        let mut guest = Guest {
            accelerator,
            arguments: arguments(boot),
            ..Guest::new(self.loader.clone(), Some(image), name)
        };
        if let BootedGuest::Firmware = boot {
            guest.extra_options = vec!["-bios".to_owned(), self.file(FIRMWARE).display().to_string()];
        }
        guest.command(folder)
    }

    fn image(&self, boot: BootedGuest) -> PathBuf {
        match boot {
            BootedGuest::Firmware | BootedGuest::Entry => self.file(ENTRY),
            BootedGuest::Greeting => self.hello_world.clone(),
            BootedGuest::Ticks => self.threads.clone(),
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

fn arguments(boot: BootedGuest) -> Vec<OsString> {
    if let BootedGuest::Ticks = boot { vec!["tick".into()] } else { Vec::new() }
}

/// Returns an image with [`FIRST_BYTE_CODE`] in place of its kernel's first instructions.
fn with_first_byte_code(file: &Path) -> Result<Vec<u8>> {
    let mut bytes = program::check(file)?.executable;
    let image = image::check(&bytes)?;
    let offset = image.segments().find_map(|segment| {
        let inside = usize::try_from(image.entry.checked_sub(segment.start)?).ok()?;
        let instructions = segment.data.get(inside..)?.get(..FIRST_BYTE_CODE.len())?;
        Some(instructions.as_ptr().addr() - bytes.as_ptr().addr())
    });
    let start = offset.context("the image has no code at its entry")?;
    bytes[start..][..FIRST_BYTE_CODE.len()].copy_from_slice(&FIRST_BYTE_CODE);
    Ok(bytes)
}

/// Returns the firmware.
fn firmware() -> Vec<u8> {
    let mut bytes = vec![0; FIRMWARE_SIZE];
    bytes[FIRMWARE_SIZE - 16..][..FIRST_BYTE_CODE_16.len()].copy_from_slice(&FIRST_BYTE_CODE_16);
    bytes
}

fn microseconds(time: Duration) -> Result<u64> {
    Ok(u64::try_from(time.as_micros())?)
}

/// Memory of a VMM in KiB, and its threads and file descriptors.
#[derive(Debug, Default, PartialEq, Eq)]
struct Footprint {
    /// Rss without the guest's memory.
    resident: u64,
    /// Pss without the guest's memory.
    proportional: u64,
    /// Rss of the guest's memory.
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

    /// Adds the mappings of `/proc/PID/smaps` (proc_pid_smaps(5)). The guest's memory is recognised as the
    /// mapping of size `guest_size`.
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
        ensure!(guests == 1, "{guests} mappings instead of 1 have the size of the guest's memory");
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
    fn footprint_excludes_guest_memory() {
        let mut footprint = Footprint::default();
        footprint.add(MAPPINGS, 131_072).unwrap();
        let expected = Footprint { guest: 2048, resident: 200, proportional: 50, ..Footprint::default() };
        assert_eq!(footprint, expected);
        assert!(Footprint::default().add(MAPPINGS, 4096).is_err());
    }
}
