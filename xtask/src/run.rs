//! `cargo xtask run`: boots a program in a virtual machine.

use std::ffi::OsString;
use std::fmt::{self, Display, Formatter};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Error, Result, bail};
use hermit_interface::exit::NOT_STARTED;

use crate::network::{self, Port};
use crate::process;
use crate::program::{self, Program};
use crate::qemu::{self, Board, End, Guest, INTERRUPTED, Input, QEMU};
use crate::setup;
use crate::uhyve::{self, Engine, Uhyve};
use hermit_interface::memory_size::MemorySize;

/// Exit code of a guest that ran for too long, as of timeout(1).
const TIMED_OUT: u8 = 124;

/// Exit code after Ctrl-C, as in a shell.
const INTERRUPT: u8 = 128 + 2;

/// Options of `run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The guest's exit code is the command's. 2: the command line is wrong; 124: the time limit was reached; 125: the \
                  guest could not be started or ended without a status; 130: Ctrl-C."
)]
pub struct Arguments {
    #[command(flatten)]
    program: Program,
    #[command(flatten)]
    machine: Machine,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

/// The machine, as `run` and the runner describe it.
#[derive(Debug, Default, clap::Args)]
pub struct Machine {
    /// Where to run it; auto takes the best that this host offers
    #[arg(long, value_enum, default_value_t)]
    platform: Platform,
    /// CPUs of the machine, 1 to 64
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: u32,
    /// Which of QEMU's machines; microvm unless there are disks or a network, which only pc has
    #[arg(long, value_enum)]
    board: Option<Board>,
    /// Memory of the machine, such as 64M or 1G
    #[arg(long, value_name = "SIZE", default_value_t)]
    memory: MemorySize,
    /// An environment variable of the program, KEY=VALUE
    #[arg(long, value_name = "K=V", value_parser = variable)]
    env: Vec<OsString>,
    /// A file that the guest sees as a disk, /dev/vda for the first one; with :ro it cannot be written
    #[arg(long, value_name = "FILE[:ro]")]
    block: Vec<String>,
    /// Pass a port of the host on to the guest, such as 8080:80; TCP, or UDP with /udp at its end
    #[arg(short = 'p', long = "port", value_name = "[ADDRESS:]HOST:GUEST[/udp]")]
    ports: Vec<Port>,
    /// The network: user (by sockets of the host; -p implies it), passt (that of uhyve by name), a tap of the host, or none. Under uhyve
    /// with commas behind passt and tap=NAME: mac=, mtu=, ip=ADDR/PREFIX, gateway=, dns=, hostname=
    #[arg(long, value_name = "user|passt|tap=NAME|none[,KEY=VALUE...]")]
    net: Option<String>,
    /// Wait for gdb on this port of the host before the first instruction; 0 is any that is free
    #[arg(long, value_name = "PORT")]
    gdb: Option<u16>,
    /// Kill the guest after so many seconds
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Print the command line of QEMU or uhyve, and why that one
    #[arg(long)]
    verbose: bool,
    /// Another loader
    #[arg(long, hide = true)]
    loader: Option<PathBuf>,
    /// Leave it to the loader to refuse a bad image
    #[arg(long, hide = true)]
    no_check: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Platform {
    /// uhyve, on KVM where that runs code at full speed, else in a process; QEMU where neither works
    #[default]
    Auto,
    /// uhyve on KVM, even if KVM merely emulates
    Kvm,
    /// uhyve without KVM, in a process that may do next to nothing, at full speed
    Process,
    /// QEMU, without KVM
    Qemu,
}

fn variable(text: &str) -> Result<OsString, String> {
    match text.split_once('=') {
        Some((key, _)) if !key.is_empty() => Ok(text.into()),
        _ => Err("an environment variable is written KEY=VALUE".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| format!("`{text}` is no number of seconds"))?;
    Duration::try_from_secs_f64(seconds)
        .ok()
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| format!("{text} seconds is no time limit"))
}

/// Runs the guest that `arguments` describe and returns its exit code.
pub fn main(arguments: &Arguments) -> Result<u8> {
    arguments.machine.check()?;
    setup::ensure()?;
    // Before anything is built: what runs the guest may not be able to do what is wanted.
    let monitor = arguments.machine.monitor()?;
    let image = arguments.program.build()?;
    match monitor {
        Monitor::Qemu => setup::packages::QEMU.ensure()?,
        Monitor::Uhyve(_) if arguments.machine.needs_passt() => setup::packages::PASST.ensure()?,
        Monitor::Uhyve(_) => {}
    }
    arguments.machine.boot(monitor, image, &arguments.arguments)
}

/// The command line is wrong, in a way that only shows when all of it is read.
#[derive(Debug)]
pub struct Misuse(String);

impl Display for Misuse {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Misuse {}

fn misuse(text: impl Into<String>) -> Error {
    Misuse(text.into()).into()
}

/// What runs the guest.
#[derive(Debug)]
pub enum Monitor {
    /// uhyve's command, as far as it says which engine.
    Uhyve(Command),
    /// QEMU.
    Qemu,
}

impl Machine {
    /// Refuses what does not fit together, as far as that is known before it is clear what runs the guest.
    pub fn check(&self) -> Result<()> {
        let in_uhyve = matches!(self.platform, Platform::Kvm | Platform::Process);
        if in_uhyve && self.board.is_some() {
            return Err(misuse("--board is one of QEMU's machines: use --platform qemu"));
        }
        if self.gdb.is_some() && self.needs_qemu() {
            return Err(misuse("--gdb is for uhyve: use --platform kvm or process"));
        }
        if self.board == Some(Board::Microvm) && !self.block.is_empty() {
            return Err(misuse("microvm has no disks: use --board pc"));
        }
        if self.board == Some(Board::Microvm) && self.is_connected() {
            return Err(misuse("microvm has no network: use --board pc"));
        }
        let net = self.net.as_deref();
        if !in_uhyve && self.needs_qemu() {
            return network::qemu(net, &self.ports).map(drop).map_err(misuse);
        }
        network::check(net, &self.ports).map_err(misuse)
    }

    /// What is to run the guest.
    pub fn monitor(&self) -> Result<Monitor> {
        match self.platform {
            Platform::Kvm => Ok(Monitor::Uhyve(uhyve::command(&setup::uhyve()?, Engine::Kvm))),
            Platform::Process => Ok(Monitor::Uhyve(uhyve::command(&setup::uhyve()?, Engine::Process))),
            Platform::Auto => self.best(),
            Platform::Qemu => Ok(Monitor::Qemu),
        }
    }

    /// The guest has a network.
    fn is_connected(&self) -> bool {
        !self.ports.is_empty() || self.net.as_deref().is_some_and(|net| net != "none")
    }

    /// uhyve connects the guest without rights.
    pub(crate) fn needs_passt(&self) -> bool {
        match self.net.as_deref() {
            None => !self.ports.is_empty(),
            Some(net) => net == "user" || net.split(',').next() == Some("passt"),
        }
    }

    /// There are options that only QEMU has.
    fn needs_qemu(&self) -> bool {
        self.platform == Platform::Qemu || self.board.is_some() || self.loader.is_some() || self.no_check
    }

    /// uhyve if it is the better choice, which then chooses the engine itself. A reason against it is no error, unless the options
    /// are for it.
    fn best(&self) -> Result<Monitor> {
        let reason = if self.needs_qemu() {
            "the options are for it".to_owned()
        } else {
            match setup::uhyve().and_then(Uhyve::check) {
                Ok(uhyve) if uhyve.is_fast => return Ok(Monitor::Uhyve(Command::new(uhyve.program))),
                Ok(uhyve) => format!("uhyve finds nothing that runs code at full speed\n{}", uhyve.report),
                Err(error) => format!("{error:#}"),
            }
        };
        if self.verbose {
            eprintln!("QEMU runs the guest: {reason}");
        }
        network::qemu(self.net.as_deref(), &self.ports).map_err(misuse)?;
        Ok(Monitor::Qemu)
    }

    /// Boots an image and returns the exit code.
    pub fn boot(&self, monitor: Monitor, image: PathBuf, arguments: &[OsString]) -> Result<u8> {
        if !self.no_check {
            program::check(&image)?;
        }
        match monitor {
            Monitor::Uhyve(command) => self.become_uhyve(command, &image, arguments),
            Monitor::Qemu if self.gdb.is_some() => bail!("--gdb is for uhyve, which cannot run it here"),
            Monitor::Qemu => self.boot_in_qemu(image, arguments),
        }
    }

    /// Has uhyve take the place of this program: it keeps the promises about input, output, signals and exit codes.
    fn become_uhyve(&self, mut command: Command, image: &Path, arguments: &[OsString]) -> Result<u8> {
        command.args(["--cpus", &self.cpus.to_string(), "--memory", &self.memory.to_string()]);
        for variable in &self.env {
            command.arg("--env").arg(variable);
        }
        for disk in &self.block {
            command.args(["--block", disk]);
        }
        if let Some(limit) = self.timeout {
            command.args(["--timeout", &limit.as_secs_f64().to_string()]);
        }
        for port in &self.ports {
            command.args(["-p", &port.to_string()]);
        }
        if let Some(net) = &self.net {
            // uhyve's user network is called by the name of the program that does it.
            command.args(["--net", if net == "user" { "passt" } else { net }]);
        }
        if let Some(port) = self.gdb {
            command.args(["--gdb", &port.to_string()]);
        }
        if self.verbose {
            command.arg("--verbose");
        }
        command.arg(image).arg("--").args(arguments);
        if self.verbose {
            eprintln!("{}", process::display(&command));
        }
        let error = command.exec();
        Err(error).with_context(|| format!("cannot start {}", Path::new(command.get_program()).display()))
    }

    fn boot_in_qemu(&self, image: PathBuf, arguments: &[OsString]) -> Result<u8> {
        if process::find(QEMU).is_none() {
            return Err(setup::packages::QEMU.missing());
        }
        let loader = self.loader.clone().map_or_else(setup::loader, Ok)?;
        let name = program::name_of(&image);
        let mut more: Vec<_> =
            self.block.iter().enumerate().flat_map(|(number, disk)| qemu::disk(number, disk)).collect();
        more.extend(network::qemu(self.net.as_deref(), &self.ports).map_err(misuse)?);
        let guest = Guest {
            board: self.board.unwrap_or(if more.is_empty() { Board::Microvm } else { Board::Pc }),
            memory: self.memory,
            cpus: self.cpus,
            arguments: arguments.to_vec(),
            environment: self.env.clone(),
            timeout: self.timeout,
            verbose: self.verbose,
            more,
            ..Guest::new(loader, Some(image), name)
        };
        ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).context("cannot handle Ctrl-C")?;
        Ok(match guest.run(Input::Ours)? {
            End::Exited(status) => status,
            End::TimedOut => {
                let limit = self.timeout.unwrap_or_default().as_secs_f64();
                eprintln!("error: the guest ran for more than {limit} s and was killed");
                TIMED_OUT
            }
            End::Interrupted => INTERRUPT,
            End::NoStatus => {
                eprintln!(
                    "error: the machine ended without an exit status: it was reset, or QEMU failed (see above)"
                );
                NOT_STARTED
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Machine, Misuse};
    use clap::Parser;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Options {
        #[command(flatten)]
        machine: Machine,
    }

    fn check(options: &str) -> anyhow::Result<()> {
        Options::try_parse_from(options.split_whitespace()).unwrap().machine.check()
    }

    #[test]
    fn what_does_not_fit_together_is_noticed_before_anything_is_built() {
        for (options, text) in [
            ("--platform kvm --board pc", "--platform qemu"),
            ("--platform qemu --gdb 0", "--gdb is for uhyve"),
            ("--board microvm --block a", "--board pc"),
            ("--board microvm -p 1:1", "--board pc"),
            ("--net x", "user, passt, tap=NAME or none"),
            ("--platform process --net tap=sixteen_bytes_xx", "no name of a network interface"),
            ("-p 1:1 --net tap=a", "-p goes with --net user"),
            ("-p 1:1 --net none", "leave --net none away"),
            ("--platform qemu --net passt,mtu=1500", "mtu=1500 is for uhyve"),
            ("--board pc -p [::1]:1:1", "uhyve"),
        ] {
            let error = check(options).unwrap_err();
            assert!(error.is::<Misuse>(), "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
        for options in
            ["", "--net none", "-p [::1]:1:1", "--net tap=a,mtu=1500", "--platform qemu --net tap=a"]
        {
            assert!(check(options).is_ok(), "{options}");
        }
    }
}
