//! The command line.

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use clap::builder::{TypedValueParser, ValueParserFactory};
use hermit_interface::time_limit::parse_seconds;

use crate::config::network::{BackendConfig, NetworkConfig, NetworkOption, PortForward, first_conflict};
use crate::config::{Config, CpuCount, DiskConfig, EngineKind, MemorySize, Variable};

/// Runs a program built for x86_64-unknown-hermit as a virtual machine
#[derive(Debug, Parser)]
#[command(
    name = "uhyve",
    version,
    arg_required_else_help = true,
    after_help = "The guest's exit code is uhyve's. 2: the command line is wrong; 124: the time limit was reached; 125: the guest could not be started, or \
                  ended without a status; 159: the sandbox stopped the guest or uhyve; 130, 143: uhyve received SIGINT (Ctrl-C) or SIGTERM."
)]
pub struct Arguments {
    /// The image: a program built for x86_64-unknown-hermit
    #[arg(required_unless_present = "check")]
    image: Option<PathBuf>,
    /// Arguments of the program
    #[arg(last = true, value_name = "ARGS")]
    arguments: Vec<OsString>,
    /// What executes the CPUs: KVM, or a sandboxed process; auto takes KVM if it executes code at native speed
    #[arg(long, value_enum, default_value_t)]
    engine: EngineKind,
    /// CPUs of the machine, 1 to 64
    #[arg(long, value_name = "N", default_value_t)]
    cpus: CpuCount,
    /// Memory of the machine, such as 64M or 1G
    #[arg(long, value_name = "SIZE", default_value_t)]
    memory: MemorySize,
    /// An environment variable of the program; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    env: Vec<Variable>,
    /// A file that the guest sees as a disk, /dev/vda for the first one; with :ro it cannot be written
    #[arg(long, value_name = "FILE[:ro]")]
    block: Vec<DiskConfig>,
    /// Wait for gdb on this port of the host before the first instruction; 0 is any free port
    #[arg(long, value_name = "PORT")]
    gdb: Option<u16>,
    /// Forward connections from a port of the host to a port of the guest; needs the program passt; may be given
    /// several times
    #[arg(short = 'p', long = "port", value_name = "[ADDR:]HOST:GUEST[/udp]")]
    ports: Vec<PortForward>,
    /// The network: a tap of the host, passt (which -p implies), or none. Behind it, with commas: mac=, mtu=,
    /// ip=ADDR/PREFIX, gateway=, dns=, hostname=
    #[arg(long, value_name = "tap=NAME|passt|none[,KEY=VALUE...]")]
    net: Option<NetworkOption>,
    /// A folder of the host: not available yet
    #[arg(long, value_name = "HOST:GUEST[:ro]")]
    mount: Vec<String>,
    /// Kill the guest after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Do not confine the hypervisor, to debug it
    #[arg(long)]
    no_sandbox: bool,
    /// Print which engines work on this host, and run nothing
    #[arg(long)]
    pub(crate) check: bool,
    /// Print statistics at the end: run time, exits, memory
    #[arg(long)]
    pub(crate) stats: bool,
    /// Print messages about progress
    #[arg(long)]
    pub(crate) verbose: bool,
}

impl Arguments {
    /// Converts the arguments into a configuration.
    ///
    /// # Errors
    ///
    /// A message about an option that is not available, or about options that exclude each other.
    pub fn config(self) -> Result<Config, String> {
        if !self.mount.is_empty() {
            return Err("--mount is not available yet: programs have no file system so far".to_owned());
        }
        Ok(Config {
            image: self.image.unwrap_or_default(),
            arguments: self.arguments,
            environment: self.env,
            cpus: self.cpus,
            memory: self.memory,
            disks: self.block,
            network: network(self.net, self.ports)?,
            engine: self.engine,
            gdb: self.gdb,
            sandbox: !self.no_sandbox,
        })
    }
}

/// Converts `--net` and `-p` into the configuration of the network device.
fn network(choice: Option<NetworkOption>, ports: Vec<PortForward>) -> Result<Option<NetworkConfig>, String> {
    if let Some(port) = first_conflict(&ports) {
        return Err(format!("-p: the host's port {port} is given twice, but goes to one port of the guest"));
    }
    let network = match choice {
        Some(NetworkOption(network)) => network,
        None if ports.is_empty() => None,
        None => Some(NetworkConfig::new(BackendConfig::Passt(Vec::new()))),
    };
    match network {
        Some(NetworkConfig { backend: BackendConfig::Passt(_), .. }) => {
            Ok(network.map(|network| NetworkConfig { backend: BackendConfig::Passt(ports), ..network }))
        }
        _ if ports.is_empty() => Ok(network),
        Some(_) => {
            Err("-p goes with --net passt: with a tap, the guest has an address of its own".to_owned())
        }
        None => Err("-p needs a network: leave --net none away".to_owned()),
    }
}

/// Parser of environment variables, which need not be UTF-8.
#[derive(Clone, Debug)]
pub struct VariableParser;

impl ValueParserFactory for Variable {
    type Parser = VariableParser;

    fn value_parser() -> VariableParser {
        VariableParser
    }
}

impl TypedValueParser for VariableParser {
    type Value = Variable;

    fn parse_ref(
        &self,
        command: &clap::Command,
        _argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Variable, clap::Error> {
        Variable::try_from(value.to_owned()).map_err(|message| {
            clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{message}\n"))
                .with_cmd(command)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Arguments;
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
    }

    #[test]
    fn invalid_values_are_rejected_with_a_hint() {
        for (words, text) in [
            (&["--cpus", "65", "i"][..], "1 to 64"),
            (&["--memory", "64MB", "i"], "such as 64M"),
            (&["--env", "A", "i"], "KEY=VALUE"),
            (&["--timeout", "0", "i"], "not a time limit"),
            (&["--engine", "x", "i"], "auto, kvm, process"),
            (&["--nonsense", "i"], "--nonsense"),
            (&["i", "argument"], "argument"),
            (&["--cpus", "2"], "IMAGE"),
        ] {
            let error = parse(words).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
    }

    #[test]
    fn unavailable_option_is_rejected() {
        let error = parse(&["--mount", "a:b", "i"]).unwrap().config().unwrap_err();
        assert!(error.contains("not available yet"));
    }

    #[test]
    fn network_follows_net_and_port_options() {
        let network =
            |words: &[&str]| parse(&[words, &["i"]].concat()).unwrap().config().map(|it| it.network);
        assert_eq!(network(&[]), Ok(None));
        assert_eq!(network(&["--net", "none"]), Ok(None));
        let ports = vec!["8080:80".parse().unwrap(), "53:53/udp".parse().unwrap()];
        let forwarded = Ok(Some(NetworkConfig::new(BackendConfig::Passt(ports))));
        assert_eq!(network(&["-p", "8080:80", "-p", "53:53/udp"]), forwarded);
        assert_eq!(network(&["-p", "8080:80", "--net", "passt", "-p", "53:53/udp"]), forwarded);
        let tap = Ok(Some(NetworkConfig::new(BackendConfig::Tap("tap0".parse().unwrap()))));
        assert_eq!(network(&["--net", "tap=tap0"]), tap);
        for (choice, text) in [("none", "leave --net none away"), ("tap=tap0", "--net passt")] {
            assert!(network(&["-p", "1:1", "--net", choice]).unwrap_err().contains(text));
        }
        let twice = network(&["-p", "8080:80", "-p", "8080:80/udp", "-p", "127.0.0.1:8080:81"]).unwrap_err();
        assert!(twice.contains("8080 is given twice"), "{twice}");
        for words in [["-p", "80", "i"], ["--net", "tap", "i"], ["--net", "x", "i"]] {
            assert!(parse(&words).is_err());
        }
    }
}
