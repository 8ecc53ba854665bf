//! Guests of `run` in QEMU: their devices, passt beside them, and how they end.

use std::env;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use anyhow::{Context, Result};
use hermit_interface::exit::{KILLED, NOT_STARTED};
use hermit_interface::port_forward::PortForward;
use hermit_options::mount;
use hermit_options::root::RootTree;
use hermit_options::{grace_message, memory, ports, timeout_message};
use tempfile::NamedTempFile;

use super::{TIMED_OUT, VmOptions};
use crate::network;
use crate::passt::Passt;
use crate::process;
use crate::program;
use crate::qemu::{self, Board, End, Guest, Input, QEMU};
use crate::setup;
use crate::signals;
use crate::usage::usage_error;
use crate::virtiofsd::{self, Virtiofsd};

/// Devices of a guest in QEMU.
#[derive(Debug)]
struct QemuDevices {
    /// QEMU's options.
    options: Vec<String>,
    /// Options of the guest's kernel.
    kernel_options: Vec<String>,
    /// The passt to which the options refer.
    _passt: Option<Passt>,
    /// The virtiofsds, which are killed when the guest has ended.
    virtiofsds: Vec<Virtiofsd>,
}

impl VmOptions {
    /// Disks and network for QEMU, after the checks that uhyve makes itself: QEMU's messages about the same errors are in terms
    /// of its own options.
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
        let mut forwards = self.machine.ports.clone();
        let chosen = ports::choose(&mut forwards)?;
        let passt = self.passt_for_qemu(&forwards);
        chosen.iter().for_each(|chosen| eprintln!("{}", ports::message(chosen)));
        let kernel_options = match &passt {
            Some(passt) => {
                options.extend(passt.qemu_options());
                passt.kernel_options().to_vec()
            }
            None => {
                let net = self.net.as_deref();
                options.extend(network::qemu_options(net, &forwards).map_err(usage_error)?);
                network::kernel_options(net)
            }
        };
        Ok(QemuDevices { options, kernel_options, _passt: passt, virtiofsds })
    }

    /// Starts passt for a guest in QEMU that it can connect. QEMU's user network serves the others: it is there without
    /// passt and without a route, but accepts connections one at a time.
    fn passt_for_qemu(&self, forwards: &[PortForward]) -> Option<Passt> {
        if !self.needs_passt() {
            return None;
        }
        let host_loopback = network::has_host_loopback(self.net.as_deref());
        let started = if Passt::is_installed() {
            let started = Passt::start(forwards, host_loopback);
            started
                .inspect_err(|error| eprintln!("note: {error:#}; QEMU's user network is used instead"))
                .ok()
        } else {
            None
        };
        if started.is_none() && !host_loopback && !self.machine.quiet {
            eprintln!(
                "note: without passt, the guest connects to no other host and answers no UDP port, because QEMU's user network \
                 cannot keep the host's loopback closed: install passt, or open the loopback by --net user,host-loopback"
            );
        }
        started
    }

    /// The tree of `--root` in a temporary file.
    fn tree_for_qemu(&self) -> Result<Option<NamedTempFile>> {
        let Some(root) = &self.machine.root else { return Ok(None) };
        let tree = RootTree::load(&self.machine.opener(), root, self.machine.memory.bytes())?;
        if !self.machine.quiet {
            tree.notes().for_each(|note| eprintln!("{note}"));
        }
        let context = "cannot make a temporary file";
        let mut file = NamedTempFile::new().context(context)?;
        file.write_all(&tree.archive).context(context)?;
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
        let tree = self.tree_for_qemu()?;
        // passt lives until QEMU has inherited its socket.
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
            tree: tree.as_ref().map(|file| file.path().to_owned()),
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
