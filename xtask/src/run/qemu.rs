//! Guests of `run` in QEMU: their devices, their network, and the exit codes for their ends.

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use hermit_interface::exit::{KILLED, NOT_STARTED};
use hermit_machines::qemu::{self, Board, End, Guest, Input, QEMU};
use hermit_machines::user_network::UserNetwork;
use hermit_machines::virtiofsd::{self, Virtiofsd};
use hermit_machines::{network, signals};
use hermit_options::mount;
use hermit_options::root::Initramfs;
use hermit_options::{grace_message, memory, timeout_message};
use hermit_toolchain::usage::usage_error;
use hermit_toolchain::{process, setup};
use tempfile::NamedTempFile;

use super::{TIMED_OUT, VmOptions};
use crate::program;

/// Devices of a guest in QEMU.
#[derive(Debug)]
struct QemuDevices {
    /// QEMU's options.
    options: Vec<String>,
    /// Options of the guest's kernel.
    kernel_options: Vec<String>,
    /// The network of the guest. It ends after the guest.
    _network: Option<UserNetwork>,
    /// The virtiofsds, which are killed when the guest has ended.
    virtiofsds: Vec<Virtiofsd>,
}

impl VmOptions {
    /// Returns the devices for QEMU. First makes the checks that uhyve makes itself, because QEMU's messages
    /// about the same errors would name QEMU's options.
    fn qemu_devices(&self) -> Result<QemuDevices> {
        memory::check(self.machine.memory)?;
        let mut options = Vec::new();
        for (number, disk) in self.machine.block.iter().enumerate() {
            disk.open(&self.machine.opener())?;
            options.extend(qemu::disk_options(number, disk));
        }
        let mut virtiofsds = Vec::new();
        for (number, mount) in self.machine.mount.iter().enumerate() {
            let virtiofsd = Virtiofsd::start(mount)?;
            options.extend(virtiofsd.qemu_options(&mount::tag(number)));
            virtiofsds.push(virtiofsd);
        }
        if !virtiofsds.is_empty() {
            options.extend(virtiofsd::memory_options(self.machine.memory));
        }
        let (net, ports) = (self.net.as_deref(), self.machine.ports.as_slice());
        options.extend(network::qemu_options(net, ports).map_err(usage_error)?);
        let network = self.user_network()?;
        let kernel_options = network.as_ref().map(UserNetwork::kernel_options).unwrap_or_default().to_vec();
        options.extend(network.iter().flat_map(UserNetwork::qemu_options));
        Ok(QemuDevices { options, kernel_options, _network: network, virtiofsds })
    }

    /// Starts the guest's user-mode network, if it has one. The process `uhyve net` prints messages itself.
    fn user_network(&self) -> Result<Option<UserNetwork>> {
        if !self.is_user_network() {
            return Ok(None);
        }
        let uhyve = self.find_uhyve().context("uhyve connects guests in QEMU, too")?;
        let options: &[&str] = if self.machine.quiet { &["--quiet"] } else { &[] };
        let (net, ports) = (self.net.as_deref(), self.machine.ports.as_slice());
        UserNetwork::start(&uhyve, net, ports, options, io::stderr()).map(Some)
    }

    /// Returns the initramfs of `--root` in a temporary file.
    fn initramfs_for_qemu(&self) -> Result<Option<NamedTempFile>> {
        let Some(root) = &self.machine.root else { return Ok(None) };
        let initramfs = Initramfs::load(&self.machine.opener(), root, self.machine.memory.bytes())?;
        if !self.machine.quiet {
            initramfs.notes().for_each(|note| eprintln!("{note}"));
        }
        let context = "cannot make a temporary file";
        let mut file = NamedTempFile::new().context(context)?;
        file.write_all(&initramfs.archive).context(context)?;
        Ok(Some(file))
    }

    /// Boots an image and returns the exit code of the guest.
    pub(super) fn boot_in_qemu(
        &self,
        image: PathBuf,
        is_boot_image: bool,
        arguments: &[OsString],
    ) -> Result<u8> {
        if process::find(QEMU).is_none() {
            return Err(setup::packages::QEMU.missing());
        }
        let name = program::name_of(&image);
        let (kernel, image) = if is_boot_image {
            (image, None)
        } else {
            (self.loader.clone().map_or_else(setup::loader, Ok)?, Some(image))
        };
        let initramfs = self.initramfs_for_qemu()?;
        let mut devices = self.qemu_devices()?;
        let mut environment = self.environment()?;
        for name in self.passed_variables(|name| env::var_os(name).is_some())? {
            let mut variable = OsString::from(format!("{name}="));
            variable.push(env::var_os(name).unwrap_or_default());
            environment.push(variable);
        }
        let guest = Guest {
            board: self.board.unwrap_or(if devices.options.is_empty() { Board::Microvm } else { Board::Pc }),
            memory: self.machine.memory,
            cpus: self.machine.cpus.get(),
            arguments: arguments.to_vec(),
            environment,
            timeout: self.machine.timeout,
            grace: self.machine.grace(),
            verbose: self.machine.verbose,
            extra_options: devices.options.clone(),
            kernel_options: devices.kernel_options.clone(),
            mounts: self.machine.mount.clone(),
            workdir: self.machine.workdir.clone(),
            initramfs: initramfs.as_ref().map(|file| file.path().to_owned()),
            has_balloon: true,
            ..Guest::new(kernel, image, name)
        };
        signals::record().context("cannot handle signals")?;
        let mut is_served = || !devices.virtiofsds.iter_mut().any(Virtiofsd::has_ended);
        Ok(match guest.run(Input::Inherit, &mut is_served)? {
            End::Exited(status) => status,
            End::TimedOut => {
                eprintln!("error: {}", timeout_message(self.machine.timeout.unwrap_or_default()));
                TIMED_OUT
            }
            End::Signal(code) => code,
            End::GraceExpired => {
                eprintln!("error: {}", grace_message(self.machine.grace()));
                KILLED
            }
            End::NotServed => {
                eprintln!(
                    "error: the guest was killed: virtiofsd, which serves a mount, has ended, and calls would wait for it"
                );
                KILLED
            }
            End::NoStatus => {
                eprintln!(
                    "error: the machine ended without an exit status: it was reset, or QEMU failed (see above)"
                );
                NOT_STARTED
            }
        })
    }
}
