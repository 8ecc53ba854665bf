//! The command line of `uhyve`, parsed by clap.
//!
//! The doc comments of the fields are the text of `--help`, so they address the user. [`Arguments::config`]
//! checks combinations of options that clap cannot express, and converts the arguments into the configuration
//! of a VM.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, Subcommand};
use hermit_options::MachineOptions;
use hermit_options::mount::check_guest_paths;

use crate::config::jail::Jail;
use crate::config::network::{self, BackendConfig, NetworkConfig, NetworkOption};
use crate::config::{Config, ConsoleMode, EngineKind, Mitigations};
use crate::network::passed::ListenFd;
use crate::network::qemu::NetArguments;
use crate::sandbox::protections::Protection;

/// Runs a program built for x86_64-unknown-hermit as a virtual machine
#[derive(Debug, Parser)]
#[command(
    name = "uhyve",
    version,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true,
    disable_help_subcommand = true,
    subcommand_negates_reqs = true,
    after_help = "The guest's exit code is uhyve's. 2: the command line is wrong; 124: the time limit was reached; 125: the guest could not be started, or \
                  ended without a status; 137: it did not end within --grace; 159: the sandbox stopped the guest or uhyve; 129, 130, 143: uhyve \
                  received SIGHUP, SIGINT (Ctrl-C) or SIGTERM, and the program did not handle it, or a second one."
)]
pub struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    /// The program: an executable for x86_64-unknown-hermit, or a boot image
    #[arg(value_name = "EXECUTABLE", required_unless_present = "check")]
    executable: Option<PathBuf>,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
    /// Engine that executes the CPUs: KVM, or a sandboxed process; auto takes KVM if it executes code at
    /// native speed
    #[arg(long, alias = "platform", value_enum, default_value_t)]
    engine: EngineKind,
    /// How the guest's output is written: raw; escaped shows control characters, other than of colours, as ^[
    /// or \u{9b}, so that a terminal does not execute them; auto is escaped on a terminal, and raw elsewhere
    #[arg(long, value_enum, default_value_t)]
    console: ConsoleMode,
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
    /// The network: user, sockets of uhyve, which -p implies; a tap of the host; or none. After it, with
    /// commas: mac=, mtu=, ip=ADDR/PREFIX, gateway=, dns=, search=, hostname=, congestion=cubic|reno|bbr, and
    /// bps= and pps=, limits of bytes and frames per second. allow=CIDR and deny=CIDR open and close
    /// addresses to the guest's connections, the longest prefix first; with user, link-local addresses and
    /// those of the host are closed; egress=none closes all that allow= does not open. host-loopback, with
    /// user, lets the guest reach the host's loopback, as host.hermit.internal
    #[arg(long, value_name = "user|tap=NAME|none[,KEY[=VALUE]...]")]
    net: Option<NetworkOption>,
    /// Forward the clients of a socket that is open already to a port of the guest: FD is the number of a
    /// descriptor of uhyve, NAME one of systemd's (FileDescriptorName=); may be given several times
    #[arg(long, value_name = "FD|NAME:GUEST")]
    listen_fd: Vec<ListenFd>,
    /// Write how the run has ended to this file, in JSON: reason, exit status, exits, peak of memory. The
    /// file is replaced when uhyve starts, with the reason `running`
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Join this cgroup before the guest is started, such as /sys/fs/cgroup/guests/web: its limits of CPU
    /// time, memory and the like hold for uhyve and the guest
    #[arg(long, value_name = "FOLDER")]
    pub(crate) cgroup: Option<PathBuf>,
    /// Run in a jail, for which uhyve is started by root: once its files are open, uhyve continues, and runs
    /// the guest, as this user and group, in namespaces without network, and with CHROOT, or an empty folder,
    /// as the root folder
    #[arg(long, value_name = "UID:GID[,CHROOT]", conflicts_with = "no_sandbox")]
    pub(crate) jail: Option<Jail>,
    /// Run a guest as a process although the host's kernel lacks parts of the sandbox (landlock of Linux
    /// 6.12)
    #[arg(long)]
    pub(crate) allow_partial_sandbox: bool,
    /// Refuse to start without these protections, such as kvm,landlock: kvm, not a process; sandbox;
    /// landlock, complete; core-sched, cores that no other process shares; jail. A protection that is missing
    /// is a warning otherwise
    #[arg(long, value_enum, value_delimiter = ',', value_name = "PROTECTION,...")]
    pub(crate) require: Vec<Protection>,
    /// Speculative execution to disable, where the host permits it. strict protects parts of the program from
    /// each other, too, and slows its memory accesses down
    #[arg(long, value_enum, default_value_t)]
    mitigations: Mitigations,
    /// Write uhyve's own messages to the end of this file, not to standard error, which is the guest's, too
    #[arg(long, value_name = "FILE")]
    pub(crate) log_file: Option<PathBuf>,
    /// Do not confine the hypervisor, to debug it
    #[arg(long)]
    no_sandbox: bool,
    /// Have the host's wall clock step, as the guest sees it, when the guest has read it for the first time
    #[arg(long, value_name = "SECONDS", hide = true, allow_negative_numbers = true, default_value_t = 0)]
    test_clock_step: i64,
    /// Print which engines work on this host and which protections are in force, and run nothing
    #[arg(long)]
    pub(crate) check: bool,
}

/// Command other than running a program.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Be the network of a guest that QEMU runs, until QEMU closes the socket. Standard output is closed when
    /// QEMU can connect. (A program called `net` is `./net`.)
    Net(NetArguments),
}

impl Arguments {
    /// Converts the arguments into a configuration.
    ///
    /// # Errors
    ///
    /// A message about options that exclude each other, or about a file with variables.
    pub fn config(self) -> Result<Config, String> {
        let environment = self.machine.environment().map_err(|error| error.to_string())?;
        let machine = self.machine;
        check_guest_paths(&machine.mount)?;
        let choice = self.net.or_else(|| (!self.listen_fd.is_empty()).then(NetworkOption::user));
        let network = network::device(choice, machine.ports.into())?;
        let is_user = |network: &NetworkConfig| matches!(network.backend, BackendConfig::User(_));
        if !self.listen_fd.is_empty() && !network.as_ref().is_some_and(is_user) {
            return Err("--listen-fd goes with --net user".to_owned());
        }
        let passed_sockets = self.listen_fd.iter().map(ListenFd::take).collect::<Result<_, _>>()?;
        Ok(Config {
            image: self.executable.unwrap_or_default(),
            arguments: self.arguments,
            environment,
            cpus: machine.cpus,
            memory: machine.memory,
            disks: machine.block,
            mounts: machine.mount,
            workdir: machine.workdir,
            root: machine.root,
            network,
            passed_sockets,
            console: self.console,
            engine: self.engine,
            gdb: machine.gdb,
            sandbox: !self.no_sandbox,
            jail: self.jail,
            allow_partial_sandbox: self.allow_partial_sandbox,
            require: self.require,
            mitigations: self.mitigations,
            test_clock_step: self.test_clock_step,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use crate::config::Mitigations;
    use crate::config::network::{BackendConfig, NetworkConfig};
    use clap::{CommandFactory, Parser};

    fn parse(words: &[&str]) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from([&["uhyve"], words].concat())
    }

    #[test]
    fn command_definition_is_valid() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_set_the_configuration() {
        let words = "--no-sandbox --cpus 2 --memory 64M --env A=b --block d.img:ro image -- one --two";
        let config = parse(&words.split(' ').collect::<Vec<_>>()).unwrap().config().unwrap();
        assert_eq!((config.cpus.get(), config.memory.mebibytes()), (2, 64));
        assert_eq!(config.arguments, ["one", "--two"]);
        assert!(config.disks[0].read_only);
        assert!(!config.sandbox && parse(&["i"]).unwrap().config().unwrap().sandbox);
        let mitigations = |words: &[&str]| parse(words).unwrap().config().unwrap().mitigations;
        assert_eq!(mitigations(&["i"]), Mitigations::Auto);
        assert_eq!(mitigations(&["--mitigations", "strict", "i"]), Mitigations::Strict);
    }

    #[test]
    fn invalid_values_are_rejected_with_a_hint() {
        for (words, text) in [
            (&["--cpus", "65", "i"][..], "1 to 64"),
            (&["--memory", "64MB", "i"], "such as 64M"),
            (&["--mount", "a:b", "i"], "HOST:/GUEST"),
            (&["--engine", "x", "i"], "auto, kvm, process"),
            (&["--nonsense", "i"], "--nonsense"),
            (&["--require", "kvm,x", "i"], "landlock"),
            (&["--mitigations", "off", "i"], "auto, strict"),
            (&["--gdb", "x", "i"], "./gdb"),
            (&["i", "argument"], "argument"),
            (&["--cpus", "2"], "EXECUTABLE"),
        ] {
            let error = parse(words).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn network_follows_net_and_port_options() {
        let network =
            |words: &[&str]| parse(&[words, &["i"]].concat()).unwrap().config().map(|it| it.network);
        assert_eq!(network(&[]), Ok(None));
        assert_eq!(network(&["--net", "none"]), Ok(None));
        let ports = vec!["8080:80".parse().unwrap(), "53:53/udp".parse().unwrap()];
        let forwarded = Ok(Some(NetworkConfig::new(BackendConfig::User(ports))));
        assert_eq!(network(&["-p", "8080:80", "-p", "53:53/udp"]), forwarded);
        assert_eq!(network(&["-p", "8080:80", "--net", "user", "-p", "53:53/udp"]), forwarded);
        let tap = Ok(Some(NetworkConfig::new(BackendConfig::Tap("tap0".parse().unwrap()))));
        assert_eq!(network(&["--net", "tap=tap0"]), tap);
        for (choice, text) in [("none", "remove --net none"), ("tap=tap0", "--net user")] {
            assert!(network(&["-p", "1:1", "--net", choice]).unwrap_err().contains(text));
        }
        assert!(network(&["--listen-fd", "3:80", "--net", "tap=tap0"]).unwrap_err().contains("--net user"));
        let error = network(&["--listen-fd", "1000000:80"]).unwrap_err();
        assert!(error.contains("1000000 was not passed"), "{error}");
        let twice = network(&["-p", "8080:80", "-p", "8080:80/udp", "-p", "127.0.0.1:8080:81"]).unwrap_err();
        assert!(twice.contains("8080 is given twice"), "{twice}");
        for words in [["-p", "80", "i"], ["--net", "tap", "i"], ["--net", "x", "i"]] {
            assert!(parse(&words).is_err());
        }
    }
}
