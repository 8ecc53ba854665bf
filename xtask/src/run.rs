//! `cargo xtask run`: boots a program in a virtual machine.
//!
//! The command checks the options, finds the program, chooses a VMM, builds the program if it is not up to
//! date, and boots the image. The preferred VMM is uhyve, with the engine that runs code at full speed on
//! this host. QEMU is the fallback, and the VMM for options that only QEMU has. uhyve replaces this process
//! by exec, so its streams, signals and exit code need no forwarding. QEMU is a child process, because this
//! process has to convert its input, output and exit code. The runner of `cargo run` and `cargo test` uses
//! `VmOptions` in the same way.

mod qemu;

use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use hermit_machines::network;
use hermit_machines::qemu::Board;
use hermit_machines::uhyve::{self, Engine, Trust, Uhyve};
use hermit_options::mount::{CachePolicy, MountConfig, check_guest_paths};
use hermit_options::rate::RateLimits;
use hermit_options::root::Initramfs;
use hermit_options::{MachineOptions, memory};
use hermit_toolchain::usage::usage_error;
use hermit_toolchain::{process, setup};

use crate::program::{self, Found, Program};

/// Exit code for a guest that reached its time limit, as timeout(1) has it.
pub(crate) const TIMED_OUT: u8 = 124;

/// Options of `run`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The exit code is that of the guest. 2: the command line is invalid; 124: the time limit was reached; 125: the guest \
                  could not be started or ended without a status; 137: it did not end within --grace; 129, 130, 143: SIGHUP, Ctrl-C, SIGTERM."
)]
pub struct Arguments {
    #[command(flatten)]
    program: Program,
    #[command(flatten)]
    vm: VmOptions,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
}

/// Options of the virtual machine, which `run` and the runner share.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct VmOptions {
    /// Platform of the machine; auto takes the best of this host
    #[arg(long, value_enum, default_value_t)]
    platform: PlatformOption,
    #[command(flatten)]
    machine: MachineOptions,
    /// QEMU's machine type; microvm unless there are disks, mounts or a network, which only pc has
    #[arg(long, value_enum)]
    board: Option<Board>,
    /// The network: user (connections through sockets of the host; -p implies it), tap=NAME (a tap of the
    /// host), or none. user,host-loopback lets the guest reach the host's loopback, as host.hermit.internal.
    /// user takes more keys: mac=, mtu=, ip=ADDR/PREFIX, gateway=, dns=, search=, hostname=, congestion=,
    /// allow=CIDR, deny=CIDR, egress=none. So does a tap, but only under uhyve, as both do bps= and pps=
    #[arg(long, value_name = "user|tap=NAME|none[,KEY[=VALUE]...]", value_parser = network::parse)]
    net: Option<String>,
    /// The loader to boot with, in place of the installed one
    #[arg(long, hide = true)]
    loader: Option<PathBuf>,
    /// Skip the check of the image, so that the loader rejects an invalid one
    #[arg(long, hide = true)]
    no_check: bool,
    /// uhyve's executable if it is known: to find it takes a run of cargo.
    #[arg(skip)]
    uhyve: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum PlatformOption {
    /// uhyve, on KVM where that runs code at full speed, else in a process; QEMU where neither works
    #[default]
    Auto,
    /// uhyve on KVM, even if KVM emulates in software
    Kvm,
    /// uhyve without KVM, in a sandboxed process, at full speed
    Process,
    /// QEMU with TCG, without KVM
    Qemu,
}

/// Variables of the host's environment that are passed to the program. They determine whether a panic prints
/// a backtrace.
const PASSED_VARIABLES: [&str; 2] = ["RUST_BACKTRACE", "RUST_LIB_BACKTRACE"];

/// Runs the guest that `arguments` describe and returns its exit code. Does most checks before the build,
/// because a build takes long.
pub fn main(arguments: &Arguments) -> Result<u8> {
    let vm = &arguments.vm;
    vm.check()?;
    vm.check_host()?;
    let program = arguments.program.find()?;
    let (trust, is_boot_image) = match &program {
        Found::Image(file) => (Trust::Foreign, Some(vm.is_boot_image(file)?)),
        Found::Binary(..) => (Trust::Own, None),
    };
    if let Some(vmm) = vm.known_vmm() {
        vm.ensure_packages(vmm)?;
    }
    let build = || program.build(vm.machine.quiet);
    let built = setup::ensure_for_run(build)?;
    // The VMM is chosen before the program is built: the choice fails if the VMM does not support an option.
    let vmm = vm.choose_vmm(trust)?;
    if !arguments.program.soft_float {
        vm.note_emulation();
    }
    vm.ensure_packages(vmm.kind())?;
    let image = built.map_or_else(build, Ok)?;
    let is_boot_image = is_boot_image.map_or_else(|| vm.is_boot_image(&image), Ok)?;
    vm.boot(vmm, image, is_boot_image, &arguments.arguments)
}

/// Replaces this process by uhyve with these arguments. Fails if uhyve cannot be built or started.
pub fn exec_uhyve_with(arguments: &[OsString]) -> Result<u8> {
    exec(Command::new(setup::uhyve()?).args(arguments))
}

/// Replaces this process by another program. Returns only if that fails.
fn exec(command: &mut Command) -> Result<u8> {
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", Path::new(command.get_program()).display()))
}

/// The program that runs the guest.
#[derive(Debug)]
pub enum Vmm {
    /// uhyve, as a command with the option of its engine.
    Uhyve(Command),
    /// QEMU.
    Qemu,
}

/// A VMM, without its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VmmKind {
    Uhyve,
    Qemu,
}

impl Vmm {
    pub(crate) const fn kind(&self) -> VmmKind {
        match self {
            Self::Uhyve(_) => VmmKind::Uhyve,
            Self::Qemu => VmmKind::Qemu,
        }
    }
}

impl VmOptions {
    /// Rejects options that contradict each other. [`Self::choose_vmm`] finds contradictions that depend on
    /// the VMM.
    pub(crate) fn check(&self) -> Result<()> {
        let in_uhyve = matches!(self.platform, PlatformOption::Kvm | PlatformOption::Process);
        if in_uhyve && self.board.is_some() {
            return Err(usage_error("--board is a machine type of QEMU: use --platform qemu"));
        }
        let of_uhyve = [("--gdb", self.machine.gdb.is_some()), ("--stats", self.machine.stats)];
        for (option, is_set) in of_uhyve {
            if is_set && self.needs_qemu() {
                return Err(usage_error(format!("{option} is for uhyve: use --platform kvm or process")));
            }
        }
        self.environment()?;
        check_guest_paths(&self.machine.mount).map_err(usage_error)?;
        if self.board == Some(Board::Microvm) && !self.machine.block.is_empty() {
            return Err(usage_error("microvm has no disks: use --board pc"));
        }
        if self.board == Some(Board::Microvm) && !self.machine.mount.is_empty() {
            return Err(usage_error("microvm has no mounts: use --board pc"));
        }
        if self.board == Some(Board::Microvm) && self.has_network() {
            return Err(usage_error("microvm has no network: use --board pc"));
        }
        let net = self.net.as_deref();
        if !in_uhyve && self.needs_qemu() {
            return network::qemu_options(net, &self.machine.ports).map(drop).map_err(usage_error);
        }
        network::check(net, &self.machine.ports).map_err(usage_error)
    }

    /// Checks the files and folders of the host that the options name.
    pub(crate) fn check_host(&self) -> Result<()> {
        let invalid = |error: &dyn Display| usage_error(error.to_string());
        let opener = self.machine.opener();
        for disk in &self.machine.block {
            disk.open(&opener).map_err(|error| invalid(&error))?;
        }
        for mount in &self.machine.mount {
            mount.check().map_err(|error| invalid(&error))?;
        }
        if let Some(root) = &self.machine.root {
            let initramfs = Initramfs::check(&opener, root, self.machine.memory.bytes());
            initramfs.map_err(|error| invalid(&error))?;
        }
        Ok(memory::check(self.machine.memory)?)
    }

    /// Returns true if a file is a boot image.
    ///
    /// # Errors
    ///
    /// Fails if the loader would not boot the file.
    pub(crate) fn is_boot_image(&self, file: &Path) -> Result<bool> {
        Ok(!self.no_check && program::check(file)?.is_boot_image)
    }

    /// Mounts a folder of the host read-only at the same path in the guest, and makes it the program's
    /// working directory. So a test finds the files of its package, as it does on Linux.
    ///
    /// Does nothing if the options set the working directory. Does nothing under QEMU either, where each
    /// mount would need a process of virtiofsd for each machine.
    pub(crate) fn start_in(&mut self, folder: &Path) {
        let Some(path) = folder.to_str().filter(|path| *path != "/" && !path.contains(':')) else { return };
        if self.machine.workdir.is_some() || self.needs_qemu() {
            return;
        }
        let mounts = &mut self.machine.mount;
        if mounts.iter().all(|mount| Path::new(&mount.guest) != folder) {
            // A mount hides earlier mounts at paths below its own. So the new mount comes after mounts above
            // the folder, and before mounts inside of it.
            let above = mounts.iter().rposition(|mount| folder.starts_with(&mount.guest));
            let mount = MountConfig {
                host: folder.to_owned(),
                guest: path.to_owned(),
                read_only: true,
                cache: CachePolicy::default(),
                limits: RateLimits::default(),
            };
            mounts.insert(above.map_or(0, |above| above + 1), mount);
        }
        self.machine.workdir = Some(path.to_owned());
    }

    /// Sets uhyve's executable. With `None`, the executable is found or built when it is needed.
    pub(crate) fn set_uhyve(&mut self, uhyve: Option<PathBuf>) {
        self.uhyve = uhyve;
    }

    /// Returns uhyve's executable, and builds it first if it is out of date. Returns `None` if the machine
    /// uses neither uhyve nor uhyve's user-mode network, or if uhyve cannot be built.
    pub(crate) fn uhyve(&self) -> Option<PathBuf> {
        if self.needs_qemu() && !self.is_user_network() { None } else { self.find_uhyve().ok() }
    }

    fn find_uhyve(&self) -> Result<PathBuf> {
        self.uhyve.clone().map_or_else(setup::uhyve, Ok)
    }

    /// Returns the VMM, if the options alone determine it.
    pub(crate) fn known_vmm(&self) -> Option<VmmKind> {
        match self.platform {
            PlatformOption::Kvm | PlatformOption::Process => Some(VmmKind::Uhyve),
            _ => self.needs_qemu().then_some(VmmKind::Qemu),
        }
    }

    /// Installs packages of the host that the VMM needs, if they are missing.
    pub(crate) fn ensure_packages(&self, vmm: VmmKind) -> Result<()> {
        match vmm {
            VmmKind::Qemu => setup::packages::QEMU.ensure(),
            VmmKind::Uhyve => Ok(()),
        }
    }

    /// Chooses the VMM for a program.
    pub(crate) fn choose_vmm(&self, trust: Trust) -> Result<Vmm> {
        let on = |engine| Ok(Vmm::Uhyve(uhyve::command_for(&self.find_uhyve()?, Some(engine), trust)));
        match self.platform {
            PlatformOption::Kvm => on(Engine::Kvm),
            PlatformOption::Process => on(Engine::Process),
            PlatformOption::Auto => self.best_vmm(trust),
            PlatformOption::Qemu => Ok(Vmm::Qemu),
        }
    }

    /// Prints a note if the options request KVM, and KVM emulates in software. Such a KVM does not execute
    /// floating-point instructions, which most programs contain.
    fn note_emulation(&self) {
        let is_emulated = || {
            let check = setup::uhyve().and_then(Uhyve::check);
            check.is_ok_and(|uhyve| uhyve.about(Engine::Kvm).contains("emulates"))
        };
        if self.platform == PlatformOption::Kvm && !self.machine.quiet && is_emulated() {
            eprintln!(
                "note: KVM emulates the processor in software here, without floating-point instructions: build the program with \
                 --soft-float, or use --platform process"
            );
        }
    }

    /// Returns true if the guest has a network.
    fn has_network(&self) -> bool {
        !self.machine.ports.is_empty() || self.net.as_deref().is_some_and(|net| net != "none")
    }

    /// Returns true if the guest has the user-mode network, in which sockets of the host carry its
    /// connections.
    fn is_user_network(&self) -> bool {
        network::is_user(self.net.as_deref(), &self.machine.ports)
    }

    /// Returns the number of CPUs.
    pub(crate) fn cpus(&self) -> usize {
        self.machine.cpus.get() as usize
    }

    /// Returns true if the machine uses a resource of the host that only one machine can use at a time: a
    /// port, a network interface, or a disk that it writes to.
    pub(crate) fn is_exclusive(&self) -> bool {
        let is_tap = self.net.as_deref().is_some_and(|net| net.starts_with("tap="));
        let writes = self.machine.block.iter().any(|disk| !disk.read_only);
        self.machine.gdb.is_some() || !self.machine.ports.is_empty() || is_tap || writes
    }

    /// Returns the names of the host's variables that are passed to the program. Variables that the options
    /// set take precedence.
    fn passed_variables(&self, is_set: impl Fn(&str) -> bool) -> Result<Vec<&'static str>> {
        let own = self.environment()?;
        let is_own = |name: &str| {
            let start = format!("{name}=");
            own.iter().any(|variable| variable.as_bytes().starts_with(start.as_bytes()))
        };
        Ok(PASSED_VARIABLES.into_iter().filter(|name| is_set(name) && !is_own(name)).collect())
    }

    /// Returns true if the options include one that only QEMU has.
    fn needs_qemu(&self) -> bool {
        self.platform == PlatformOption::Qemu
            || self.board.is_some()
            || self.loader.is_some()
            || self.no_check
    }

    /// Chooses uhyve with its preferred engine, if an engine runs code at full speed. Otherwise chooses QEMU.
    ///
    /// # Errors
    ///
    /// Fails if QEMU does not support the options.
    fn best_vmm(&self, trust: Trust) -> Result<Vmm> {
        let reason = if self.needs_qemu() {
            "an option is only for QEMU".to_owned()
        } else {
            match self.find_uhyve().and_then(|program| Uhyve::check_for(program, trust)) {
                Ok(uhyve) if uhyve.is_fast => {
                    // The engine is named explicitly: otherwise uhyve would print at each start that it falls
                    // back to the process engine.
                    let engine = Some(uhyve.fast_engine());
                    return Ok(Vmm::Uhyve(uhyve::command_for(&uhyve.program, engine, trust)));
                }
                Ok(uhyve) => format!("uhyve has no engine at full speed on this host\n{}", uhyve.report),
                Err(error) => format!("{error:#}"),
            }
        };
        if self.machine.verbose {
            eprintln!("QEMU runs the guest: {reason}");
        }
        network::qemu_options(self.net.as_deref(), &self.machine.ports).map_err(usage_error)?;
        Ok(Vmm::Qemu)
    }

    /// Boots an image and returns the exit code of the guest.
    pub(crate) fn boot(
        &self,
        vmm: Vmm,
        image: PathBuf,
        is_boot_image: bool,
        arguments: &[OsString],
    ) -> Result<u8> {
        match vmm {
            Vmm::Uhyve(command) => self.exec_uhyve(command, &image, arguments),
            Vmm::Qemu if self.machine.gdb.is_some() || self.machine.stats => {
                bail!("--gdb and --stats are for uhyve, which has no engine at full speed on this host")
            }
            Vmm::Qemu => self.boot_in_qemu(image, is_boot_image, arguments),
        }
    }

    /// Replaces this process by uhyve, so the streams, signals and exit code of uhyve are those of this
    /// command.
    fn exec_uhyve(&self, mut command: Command, image: &Path, arguments: &[OsString]) -> Result<u8> {
        command.args(self.machine.to_arguments());
        for name in self.passed_variables(|name| env::var_os(name).is_some())? {
            command.args(["--env", name]);
        }
        if let Some(net) = &self.net {
            command.arg("--net").arg(net);
        }
        command.arg(image).arg("--").args(arguments);
        if self.machine.verbose {
            eprintln!("{}", process::display(&command));
        }
        exec(&mut command)
    }

    /// Returns the program's environment.
    fn environment(&self) -> Result<Vec<OsString>> {
        let variables = self.machine.environment().map_err(|error| usage_error(error.to_string()))?;
        Ok(variables.iter().map(|variable| variable.as_os_str().to_owned()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::VmOptions;
    use clap::Parser;
    use hermit_toolchain::usage::UsageError;

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Options {
        #[command(flatten)]
        vm: VmOptions,
    }

    fn parse(options: &str) -> VmOptions {
        Options::try_parse_from(options.split_whitespace()).unwrap().vm
    }

    fn check(options: &str) -> anyhow::Result<()> {
        parse(options).check()
    }

    #[test]
    fn host_variables_for_backtraces_pass_unless_the_options_set_them() {
        let passed =
            |options: &str| parse(options).passed_variables(|name| name == "RUST_BACKTRACE").unwrap();
        assert_eq!(passed(""), ["RUST_BACKTRACE"]);
        assert_eq!(passed("--env A=b --env RUST_BACKTRACE_OF_MINE=0"), ["RUST_BACKTRACE"]);
        assert!(passed("--env RUST_BACKTRACE=0").is_empty());
        assert!(parse("").passed_variables(|_| false).unwrap().is_empty());
    }

    #[test]
    fn machines_of_tests_start_in_their_folder_unless_options_name_another() {
        let started = |options: &str, folder: &str| {
            let mut vm = parse(options);
            vm.start_in(folder.as_ref());
            let mounts: Vec<_> = vm.machine.mount.iter().map(|mount| mount.to_argument()).collect();
            (vm.machine.workdir, mounts)
        };
        assert_eq!(started("", "/a b"), (Some("/a b".to_owned()), vec!["/a b:/a b:ro".into()]));
        assert_eq!(started("-w /c", "/a"), (Some("/c".to_owned()), Vec::new()));
        for (options, folder) in [("", "/"), ("", "/a:b"), ("--platform qemu", "/a")] {
            assert_eq!(started(options, folder), (None, Vec::new()), "{options} {folder}");
        }
    }

    #[test]
    fn machines_with_host_resources_are_exclusive() {
        for options in ["-p 1:1", "--gdb 0", "--block a", "--net tap=a"] {
            assert!(parse(options).is_exclusive(), "{options}");
        }
        for options in ["", "--block a:ro", "--net user", "--cpus 2"] {
            assert!(!parse(options).is_exclusive(), "{options}");
        }
    }

    #[test]
    fn network_of_either_vmm_is_parsed_with_its_keys() {
        for (net, text) in [
            ("host", "unknown network `host`: write user, tap=NAME or none"),
            ("tap=sixteen_bytes_xx", "no name of a network interface"),
            ("tap=a,host-loopback", "goes with user"),
            ("user,mtu=1", "576 to 65520"),
            ("user,speed=1", "no `speed`"),
            ("passt", "write --net user"),
        ] {
            let error = Options::try_parse_from(["--net", net]).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn missing_files_are_errors_of_the_command_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        std::fs::write(folder.path().join("disk"), [1; 1000]).unwrap();
        for (options, text) in [
            (format!("--mount {path}/none:/srv"), "cannot mount the folder"),
            (format!("--mount {path}/disk:/srv"), "cannot mount the folder"),
            (format!("--root {path}/none"), "--root: cannot read"),
            (format!("--root {path}/disk"), "no tar archive"),
            (format!("--block {path}/none"), "cannot open the disk"),
            (format!("--block {path}/disk"), "no multiple of 512"),
        ] {
            let error = parse(&options).check_host().unwrap_err();
            assert!(error.is::<UsageError>() && error.to_string().contains(text), "{error}");
        }
        assert!(parse(&format!("--mount {path}:/srv --root {path}")).check_host().is_ok());
    }

    #[test]
    fn contradicting_options_are_rejected() {
        for (options, text) in [
            ("--platform kvm --board pc", "--platform qemu"),
            ("--platform qemu --gdb 0", "--gdb is for uhyve"),
            ("--board q35 --stats", "--stats is for uhyve"),
            ("--env-file /no/such/file", "cannot read the environment file"),
            ("--board microvm --block a", "--board pc"),
            ("--board microvm -p 1:1", "--board pc"),
            ("-p 1:1 --net tap=a", "-p goes with --net user"),
            ("-p 1:1 --net none", "remove --net none"),
            ("-p 80:1 -p 80:2", "given twice"),
            ("--platform qemu --net tap=a,mtu=1500", "mtu=1500 is for uhyve"),
            ("--board pc --net user,bps=1M", "bps=1M is for uhyve"),
        ] {
            let error = check(options).unwrap_err();
            assert!(error.is::<UsageError>(), "{error}");
            assert!(error.to_string().contains(text), "{error}");
        }
        for options in [
            "",
            "--net none",
            "-p [::1]:1:1",
            "--net user,host-loopback",
            "--platform qemu --net user,host-loopback,mtu=1500,dns=1.1.1.1",
            "--board pc -p [::1]:1:1",
            "--net tap=a,mtu=1500",
            "--platform qemu --net tap=a",
        ] {
            assert!(check(options).is_ok(), "{options}");
        }
    }
}
