//! Tests of QEMU's virtio devices: disks, entropy, console and balloon, on PCI and on MMIO.
//!
//! QEMU has more variants of a device than uhyve: legacy and modern PCI, MSI-X and INTx, PCI Express, and
//! virtio-mmio. The tests run the same programs with each variant. Some tests read QEMU's trace log
//! (`-d trace:EVENT`), for example to see which CPU an interrupt was sent to.

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use hermit_machines::qemu::{Board, Guest, input_fifo, status};
use tempfile::TempDir;

use super::child::{ChildInput, ChildProcess};
use super::machine_types::{Qemu, expect};
use super::memory_return;
use super::platform::LIMIT;
use super::schedule::Tests;

/// Status bit that a driver sets when it gives up on a device (virtio 1.2, section 2.1).
const FAILED: u32 = 0x80;

/// Size of the disk in bytes.
const SIZE: usize = 256 << 10;

/// Size in bytes of a disk that is divided among 100 threads.
const REGIONS_SIZE: usize = 9_766 * 512;

/// Option of the kernel with the address and the interrupt of the last virtio-mmio slot of QEMU's microvm.
/// QEMU uses this slot for the first device, but does not pass its address to a kernel that is booted by PVH.
const MMIO_SLOT: &str = "virtio_mmio.device=512@0xfeb00e00:12";

/// Ways to attach a disk: name, machine, and options.
const DISKS: [(&str, Board, &[&str]); 5] = [
    ("PCI with MSI-X", Board::Pc, &["-device", "virtio-blk-pci,drive=disk"]),
    ("PCI with INTx", Board::Pc, &["-device", "virtio-blk-pci,drive=disk,vectors=0"]),
    (
        "PCI without the legacy interface",
        Board::Pc,
        &["-device", "virtio-blk-pci,drive=disk,disable-legacy=on"],
    ),
    ("PCI Express of q35", Board::Q35, &["-device", "virtio-blk-pci,drive=disk"]),
    (
        "virtio-mmio",
        Board::Microvm,
        &[
            "-global",
            "virtio-mmio.force-legacy=false",
            "-device",
            "virtio-blk-device,drive=disk",
            // Without ACPI, the devices use the I/O APIC.
            "-machine",
            "acpi=off",
        ],
    ),
];

pub(super) fn test<'a>(tests: &mut Tests<'a>, qemu: &'a Qemu<'_>) {
    for (name, board, options) in DISKS {
        tests.add(format!("devices: a disk, {name}"), move || {
            let folder = TempDir::new()?;
            let file = folder.path().join("disk");
            fs::write(&file, vec![0; SIZE])?;
            let guest =
                Guest { board, ..with_disk(qemu, &qemu.image("disk"), &file, &["check", "/dev/vda"]) };
            let guest = guest.with_options(options).with_kernel_option(MMIO_SLOT);
            expect(&guest, b"", 0, &["262144 bytes are as they were written"])?;
            let zeros = fs::read(&file)?.iter().filter(|byte| **byte == 0).count();
            ensure!(
                zeros < SIZE / 16,
                "{zeros} of the disk's {SIZE} bytes are zero: they were never written"
            );
            Ok(())
        });
    }
    tests.add("devices, CPUs 2: threads have requests to a disk in flight", move || in_threads(qemu));
    for cpus in [1, 4] {
        tests.add(format!("devices, CPUs {cpus}: more threads than buffers use a disk"), move || {
            in_regions(qemu, cpus)
        });
    }
    tests.add("devices: a disk is opened without memory", move || {
        let folder = TempDir::new()?;
        let file = folder.path().join("disk");
        fs::write(&file, vec![0; SIZE])?;
        let guest = with_disk(qemu, &qemu.image("abi_calls"), &file, &["exhausted-disk"]);
        let guest = guest.with_options(&["-device", "virtio-blk-pci,drive=disk"]);
        expect(&guest, b"", 0, &["ok"]).map(drop)
    });
    tests.add("devices: random bytes", move || random_bytes(qemu));
    tests.add("devices: a processor without random numbers", move || no_randomness(qemu));
    tests.add("devices: virtio console", move || console(qemu));
    for board in [Board::Microvm, Board::Pc] {
        tests.add(format!("devices: standard input by virtio, {board:?}"), move || input_device(qemu, board));
    }
    for board in [Board::Microvm, Board::Pc, Board::Q35] {
        tests.add(format!("devices: standard input after the first read, {board:?}"), move || {
            input_after_first_read(qemu, board)
        });
    }
    add_balloon_tests(tests, qemu);
    tests.add("devices: a read-only disk", move || read_only(qemu, &qemu.image("disk")));
    tests.add("devices, CPUs 4: interrupts of two disks arrive on different CPUs", move || {
        let messages = messages(qemu, "devices")?;
        let cpus: BTreeSet<_> = messages.iter().map(|(_, cpu)| cpu).collect();
        ensure!(messages.len() == 2 && cpus.len() == 2, "messages, by vector and CPU: {messages:?}");
        Ok(())
    });
    tests.add("devices, CPUs 4: interrupts move to a CPU that starts later than the driver", move || {
        let messages = messages(qemu, "devices-first")?;
        let vectors: BTreeSet<_> = messages.iter().map(|(vector, _)| vector).collect();
        let first = messages.iter().filter(|(_, cpu)| *cpu == 0).count();
        // The first CPU gets messages with two vectors, and then another CPU gets one message.
        ensure!(messages.len() == 3 && vectors.len() == 2 && first == 2, "messages: {messages:?}");
        Ok(())
    });
}

fn random_bytes(qemu: &Qemu<'_>) -> Result<()> {
    let guest = on_pc(qemu, &qemu.image("disk"), &["random", "/dev/hwrng", "2000"]);
    let guest = guest.with_options(&["-device", "virtio-rng-pci"]);
    expect(&guest, b"", 0, &[" values"]).map(drop)
}

/// Adds the tests of balloon devices.
fn add_balloon_tests<'a>(tests: &mut Tests<'a>, qemu: &'a Qemu<'_>) {
    for board in [Board::Microvm, Board::Pc, Board::Q35] {
        tests.add(format!("devices: freed memory returns to the host, {board:?}"), move || {
            freed_memory_returns(qemu, board)
        });
    }
    tests.add("devices: a balloon device that takes no reports is refused without a warning", move || {
        balloon_without_reports(qemu)
    });
}

fn balloon_without_reports(qemu: &Qemu<'_>) -> Result<()> {
    let folder = TempDir::new()?;
    let log = folder.path().join("log");
    let guest = on_pc(qemu, &qemu.image("threads"), &["touch", "4"]);
    let guest = guest.with_options(&["-device", "virtio-balloon-pci,disable-legacy=on"]);
    let guest = with_trace(guest, "virtio_set_status", &log)?;
    let running = ChildProcess::start(guest.command(folder.path())?, ChildInput::Open(Vec::new()), LIMIT)?;
    running.has_printed(b"started")?;
    running.send(b"\n")?;
    running.has_printed(b"freed")?;
    // The kernel looks for the device only after some seconds. The guest must not end before.
    let start = Instant::now();
    while !fs::read_to_string(&log)?.lines().filter_map(device_status).any(|status| status & FAILED != 0) {
        ensure!(start.elapsed() < LIMIT, "the driver has not refused the device");
        thread::sleep(Duration::from_millis(10));
    }
    running.send(b"\n")?;
    let outcome = running.end()?;
    ensure!(status(folder.path()) == Some(0), "the check failed\n{outcome}");
    ensure!(!outcome.text().contains("virtio"), "there is a warning\n{outcome}");
    Ok(())
}

/// Returns the device status that the driver sets, if a line of QEMU's log reports it.
fn device_status(line: &str) -> Option<u32> {
    // virtio_set_status vdev 0x55d0c8f6b2f0 val 139
    line.split_once("virtio_set_status")?.1.split_once(" val ")?.1.trim().parse().ok()
}

/// Returns the guest with options that make QEMU write an event of its trace to the file `log`.
fn with_trace(guest: Guest, event: &str, log: &Path) -> Result<Guest> {
    let log = log.to_str().context("the log's name")?;
    Ok(guest.with_options(&["-d", &format!("trace:{event}"), "-D", log]))
}

/// Memory that the guest frees returns to the host through the balloon device.
fn freed_memory_returns(qemu: &Qemu<'_>, board: Board) -> Result<()> {
    let folder = TempDir::new()?;
    let arguments = memory_return::arguments();
    let guest = qemu.example("threads", &arguments.each_ref().map(String::as_str));
    let memory = memory_return::MACHINE.parse().map_err(anyhow::Error::msg)?;
    let guest = Guest { board, memory, has_balloon: true, ..guest };
    let running = ChildProcess::start(guest.command(folder.path())?, ChildInput::Open(Vec::new()), LIMIT)?;
    memory_return::returns(&running, running.id())?;
    let outcome = running.end()?;
    ensure!(status(folder.path()) == Some(0), "the check failed\n{outcome}");
    Ok(())
}

/// Returns a guest on the classic PC.
fn on_pc(qemu: &Qemu<'_>, image: &Path, arguments: &[&str]) -> Guest {
    Guest { board: Board::Pc, ..qemu.guest(image, arguments) }
}

fn with_disk(qemu: &Qemu<'_>, image: &Path, file: &Path, arguments: &[&str]) -> Guest {
    let drive = format!("file={},format=raw,if=none,id=disk", file.display());
    on_pc(qemu, image, arguments).with_options(&["-drive", &drive])
}

fn in_threads(qemu: &Qemu<'_>) -> Result<()> {
    let folder = TempDir::new()?;
    let file = folder.path().join("disk");
    fs::write(&file, vec![0; SIZE])?;
    let guest =
        Guest { cpus: 2, ..with_disk(qemu, &qemu.image("disk"), &file, &["parallel", "/dev/vda", "8"]) };
    let guest = guest.with_options(&["-device", "virtio-blk-pci,drive=disk"]);
    expect(&guest, b"", 0, &["262144 bytes are as 8 threads wrote them"]).map(drop)
}

/// 100 threads have requests in flight, but the kernel has only 64 buffers.
fn in_regions(qemu: &Qemu<'_>, cpus: u32) -> Result<()> {
    let folder = TempDir::new()?;
    let file = folder.path().join("disk");
    fs::write(&file, vec![0; REGIONS_SIZE])?;
    let arguments = ["regions", "/dev/vda", "100"];
    let guest = Guest { cpus, ..with_disk(qemu, &qemu.image("disk"), &file, &arguments) };
    let guest = guest.with_options(&["-device", "virtio-blk-pci,drive=disk"]);
    expect(&guest, b"", 0, &["5000192 bytes are as 100 threads wrote their regions"]).map(drop)
}

fn read_only(qemu: &Qemu<'_>, disk: &Path) -> Result<()> {
    let folder = TempDir::new()?;
    let file = folder.path().join("disk");
    fs::write(&file, b"contents".repeat(1024))?;
    let drive = format!("file={},format=raw,if=none,id=disk,read-only=on", file.display());
    let guest = |arguments: &[&str]| {
        let guest = on_pc(qemu, disk, arguments);
        guest.with_options(&["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"])
    };
    expect(&guest(&["write", "/dev/vda", "0"]), b"other", 1, &["Permission denied"])?;
    expect(&guest(&["read", "/dev/vda", "8", "8"]), b"", 0, &["contents"])?;
    expect(&guest(&["size", "/dev/vda"]), b"", 0, &["8192"])?;
    expect(&guest(&["stat", "/dev/vda"]), b"", 0, &["device of length 0"])?;
    expect(&guest(&["stat", "/dev/vdb"]), b"", 1, &["disk: "])?;
    ensure!(fs::read(&file)? == b"contents".repeat(1024), "the file has changed");
    Ok(())
}

/// Without RDRAND, random numbers come from the entropy device. Without that device, std reports that there
/// are no random numbers.
fn no_randomness(qemu: &Qemu<'_>) -> Result<()> {
    let guest = on_pc(qemu, &qemu.image("faults"), &["entropy"]);
    let guest = guest.with_options(&["-cpu", "max,-rdrand,-rdseed"]);
    expect(&guest, b"", 101, &["failed to generate random data", "add `-cpu max`"])?;
    expect(&guest.with_options(&["-device", "virtio-rng-pci"]), b"", 0, &["random number:"])?;
    let guest = on_pc(qemu, &qemu.image("abi_calls"), &["random"]);
    let guest = guest.with_options(&["-cpu", "max,-rdrand,-rdseed"]);
    expect(&guest, b"", 1, &["left: -1", "add `-cpu max`"])?;
    expect(&guest.with_options(&["-device", "virtio-rng-pci"]), b"", 0, &["ok"]).map(drop)
}

/// Input and output use the virtio console. Reports of the kernel use the serial port.
fn console(qemu: &Qemu<'_>) -> Result<()> {
    let folder = TempDir::new()?;
    let file = folder.path().join("console");
    let device = format!("file,id=device,path={}", file.display());
    let options =
        ["-device", "virtio-serial-pci", "-chardev", &device, "-device", "virtconsole,chardev=device"];
    let guest = on_pc(qemu, &qemu.image("hello_world"), &[])
        .with_options(&options)
        .with_kernel_option("console=hvc0");
    let serial = expect(&guest, b"", 0, &[])?;
    let text = fs::read_to_string(&file).context("the console's file")?;
    ensure!(text.contains("Hello, world!"), "the device got {text:?}, the serial port {serial:?}");
    Ok(())
}

/// Input comes from the virtio console; on microvm, its interrupt comes from the second I/O APIC. Output and
/// errors go to the serial ports.
fn input_device(qemu: &Qemu<'_>, board: Board) -> Result<()> {
    // The input is larger than the FIFO and all buffers. So the guest has to wait for input, and QEMU has to
    // wait for the guest.
    let input: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let guest = Guest { board, has_input_device: true, ..qemu.guest(&qemu.image("stdin"), &[]) };
    let output = expect(&guest, &input, 0, &["100000 bytes"])?;
    ensure!(output.starts_with(&input.to_ascii_uppercase()), "the output is not the input in upper case");
    Ok(())
}

/// Input arrives when the guest is about to initialise the device, and more input when a read waits for it.
fn input_after_first_read(qemu: &Qemu<'_>, board: Board) -> Result<()> {
    let folder = TempDir::new()?;
    let guest = Guest { board, has_input_device: true, ..qemu.example("abi_calls", &["stdin"]) };
    let running = ChildProcess::start(guest.command(folder.path())?, ChildInput::Nothing, LIMIT)?;
    running.has_printed(b"about to read")?;
    let mut fifo = OpenOptions::new().write(true).open(input_fifo(folder.path()))?;
    fifo.write_all(b"first\n")?;
    running.has_printed(b"waiting")?;
    fifo.write_all(b"second\n")?;
    let outcome = running.end()?;
    ensure!(status(folder.path()) == Some(0), "the check failed\n{outcome}");
    Ok(())
}

/// Returns the MSI-X messages of two disks while a check of `kernel/tests/abi_calls` runs, as pairs of a
/// vector and a CPU. They come from QEMU's log.
fn messages(qemu: &Qemu<'_>, check: &str) -> Result<BTreeSet<(u8, u8)>> {
    let folder = TempDir::new()?;
    let log = folder.path().join("log");
    let mut guest = Guest { cpus: 4, ..on_pc(qemu, &qemu.image("abi_calls"), &[check]) };
    for name in ["one", "other"] {
        let file = folder.path().join(name);
        fs::write(&file, vec![1; SIZE])?;
        let drive = format!("file={},format=raw,if=none,id={name}", file.display());
        let device = format!("virtio-blk-pci,drive={name}");
        guest = guest.with_options(&["-drive", &drive, "-device", &device]);
    }
    let guest = with_trace(guest, "apic_deliver_irq", &log)?;
    expect(&guest, b"", 0, &["ok"])?;
    let text = fs::read_to_string(&log)?;
    Ok(text.lines().filter_map(message).collect())
}

/// Returns the vector and the destination of the message in a line of QEMU's log.
fn message(line: &str) -> Option<(u8, u8)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number =
        |name| words.iter().skip_while(|word| **word != name).nth(1).and_then(|word| word.parse().ok());
    // The log contains a line with vector 0, which is due to the firmware.
    Some((number("vector").filter(|vector| *vector != 0)?, number("dest")?))
}
