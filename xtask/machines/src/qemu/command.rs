//! The command line of QEMU.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use hermit_interface::command_line::Encoder;
use hermit_interface::exit::{QUIT_PORT, SHUTDOWN_HANDLED_PORT, STATUS_PORT};
use hermit_options::disk::DiskConfig;
use hermit_options::mount;
use hermit_options::rate::{Rate, RateLimits};

use super::files::{handled_file, make_input_fifo, monitor, status_file};
use super::{Guest, QEMU};
use crate::debug_info::without_debug_info;

/// Maximum length of the path of a Unix socket (`sun_path`), without the terminating NUL.
const MAX_SOCKET_PATH: usize = 107;

/// QEMU's filter of system calls. A guest that has taken over QEMU by a bug in a device can neither start
/// programs nor gain privileges.
const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

impl Guest {
    /// Returns QEMU's command line. QEMU keeps its files in `folder`. The guest exits by means of the last
    /// two devices, see [`hermit_interface::exit`]. If the guest has an error stream, the caller must make
    /// QEMU's standard error a pipe or `/dev/null`.
    pub fn command(&self, folder: &Path) -> Result<Command> {
        let mut qemu = Command::new(QEMU);
        qemu.args([
            "-accel",
            self.accelerator.option(),
            "-cpu",
            self.accelerator.cpu_model(),
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
        ]);
        qemu.args(["-sandbox", SANDBOX]);
        qemu.args([
            "-M",
            self.board.option(),
            "-m",
            &self.memory.to_string(),
            "-smp",
            &self.cpus.to_string(),
        ]);
        qemu.arg("-kernel").arg(&self.kernel);
        let image = self.image.as_ref().map(|file| image_module(folder, file));
        let initramfs = self.initramfs.as_ref().map(|file| module(folder, "initramfs", file));
        let modules = image.into_iter().chain(initramfs).collect::<Result<Vec<_>>>()?;
        if !modules.is_empty() {
            qemu.arg("-initrd").arg(modules.join(","));
        }
        qemu.arg("-append").arg(OsStr::from_bytes(&self.command_line()));
        if self.has_input_device {
            let fifo = make_input_fifo(folder)?;
            qemu.arg("-chardev").arg(format!("pipe,id=input,path={}", quote_commas(&fifo)));
            qemu.args(self.board.input_bus()).args(["-device", "virtconsole,chardev=input"]);
        }
        if self.has_balloon {
            qemu.args(self.board.balloon());
        }
        qemu.args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"]);
        if self.has_error_stream {
            qemu.args(["-chardev", "file,id=stderr,path=/proc/self/fd/2,append=on"]);
            qemu.args(["-device", "isa-serial,index=1,chardev=stderr"]);
        }
        qemu.args(file_port("status", STATUS_PORT, &status_file(folder)));
        qemu.args(file_port("handled", SHUTDOWN_HANDLED_PORT, &handled_file(folder)));
        let monitor = monitor(folder);
        if monitor.as_os_str().len() <= MAX_SOCKET_PATH {
            qemu.args(["-monitor", &format!("unix:{},server=on,wait=off", quote_commas(&monitor))]);
        }
        qemu.args(["-device", &format!("isa-debug-exit,iobase={QUIT_PORT:#x},iosize=0x01")]);
        qemu.args(&self.extra_options);
        Ok(qemu)
    }

    fn command_line(&self) -> Vec<u8> {
        let mut line = Encoder::new();
        line.argv0(self.name.as_bytes());
        self.environment.iter().for_each(|variable| line.env(variable.as_bytes()));
        self.arguments.iter().for_each(|argument| line.arg(argument.as_bytes()));
        for (number, mount) in self.mounts.iter().enumerate() {
            line.mount(&mount::tag(number), mount.guest.as_bytes(), mount.read_only);
        }
        self.workdir.iter().for_each(|path| line.working_directory(path.as_bytes()));
        let input = if self.has_input_device { self.board.input_options() } else { &[] };
        let balloon = if self.has_balloon { self.board.balloon_options() } else { &[] };
        let devices = input.iter().chain(balloon).copied();
        let options = self.kernel_options.iter().map(String::as_str).chain(devices);
        let options = options.flat_map(|option| [option.as_bytes(), b" "].concat());
        options.chain(line.finish()).collect()
    }
}

/// Returns an image as a part of the option `-initrd`. The option names a copy without debugging information,
/// which would occupy memory of the guest until the image is loaded. A file that is not an executable is
/// passed unchanged; the loader rejects it.
fn image_module(folder: &Path, file: &Path) -> Result<String> {
    let executable = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let Some(executable) = without_debug_info(&executable) else { return module(folder, "image", file) };
    let copy = folder.join("image");
    fs::write(&copy, executable).context("cannot write an image to a temporary folder")?;
    Ok(quote_commas(&copy))
}

/// Returns a file as a part of the option `-initrd`. The option names a symbolic link in `folder`, because
/// the file's own path may contain a comma or a blank. QEMU separates files by commas, and for a multiboot
/// loader it separates a path from its arguments by a blank.
fn module(folder: &Path, name: &str, file: &Path) -> Result<String> {
    let link = folder.join(name);
    let file = file.canonicalize().with_context(|| format!("cannot find {}", file.display()))?;
    symlink(&file, &link).context("cannot make a link in a temporary folder")?;
    Ok(quote_commas(&link))
}

/// Returns the options of a disk for a rate limit. QEMU defines the burst as a rate that lasts for one
/// second, and requires that it is not below the limit itself.
fn throttling(kind: &str, Rate { per_second, burst }: Rate) -> String {
    let burst = burst.max(per_second);
    format!("throttling.{kind}-total={per_second},throttling.{kind}-total-max={burst},")
}

/// Returns the options of a virtio disk of a machine with PCI.
pub fn disk_options(number: usize, disk: &DiskConfig) -> [String; 4] {
    let read_only = if disk.read_only { "on" } else { "off" };
    let file = quote_commas(&disk.file);
    let RateLimits { bytes, operations } = disk.limits;
    let limits = [("bps", bytes), ("iops", operations)];
    let limits: String = limits.iter().filter_map(|(kind, rate)| Some(throttling(kind, (*rate)?))).collect();
    [
        "-drive".to_owned(),
        format!("if=none,id=disk{number},format=raw,read-only={read_only},{limits}file={file}"),
        "-device".to_owned(),
        format!("virtio-blk-pci,disable-legacy=on,drive=disk{number}"),
    ]
}

/// Escapes commas, which separate the parts of QEMU's options.
pub(crate) fn quote_commas(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

/// Returns the options of an I/O port. QEMU appends the bytes that the guest writes to the port to `file`.
fn file_port(id: &str, port: u16, file: &Path) -> [String; 4] {
    let file = format!("file,id={id},path={}", quote_commas(file));
    ["-chardev".to_owned(), file, "-device".to_owned(), debug_console(port, id)]
}

/// Returns the option of a device at an I/O port, which passes written bytes to a character device. Reading
/// the port returns the port's number.
pub fn debug_console(port: u16, chardev: &str) -> String {
    format!("isa-debugcon,iobase={port:#x},readback={port:#x},chardev={chardev}")
}

#[cfg(test)]
mod tests {
    use hermit_interface::command_line::MountOptions;
    use hermit_options::mount::MountConfig;

    use super::disk_options;
    use crate::qemu::Guest;

    #[test]
    fn kernel_parses_its_mounts_and_working_directory() {
        for path in ["/srv", "/a b:ro", "/\"\\"] {
            let mount: MountConfig = format!("/tmp:{path}").parse().unwrap();
            let workdir = Some(mount.guest.clone());
            let guest =
                Guest { mounts: vec![mount.clone()], workdir, ..Guest::new("a".into(), None, "a".into()) };
            let parsed = MountOptions::parse(&guest.command_line()).unwrap();
            let found: Vec<_> =
                parsed.mounts.iter().map(|found| (&found.path[..], found.is_read_only)).collect();
            assert_eq!(found, [(mount.guest.as_bytes(), mount.read_only)]);
            assert_eq!(parsed.working_directory, Some(mount.guest.into_bytes()));
        }
    }

    #[test]
    fn disk_options_escape_commas() {
        let options = |number, disk: &str| disk_options(number, &disk.parse().unwrap())[1].clone();
        assert_eq!(options(1, "a,b:ro"), "if=none,id=disk1,format=raw,read-only=on,file=a,,b");
        assert_eq!(options(0, "ro"), "if=none,id=disk0,format=raw,read-only=off,file=ro");
        let limits = "throttling.bps-total=9,throttling.bps-total-max=9,throttling.iops-total=1,throttling.iops-total-max=5";
        let limited = format!("if=none,id=disk0,format=raw,read-only=off,{limits},file=a");
        assert_eq!(options(0, "a,bps=9/2,iops=1/5"), limited);
    }
}
