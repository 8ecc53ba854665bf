//! The options.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use hermit_interface::cpu_count::CpuCount;
use hermit_interface::memory_size::MemorySize;
use hermit_interface::time_limit::{DEFAULT_GRACE, parse_grace, parse_seconds};

use crate::disk::DiskConfig;
use crate::environment::{self, EnvOption, EnvironmentError, Variable};
use crate::gdb::GdbAddress;
use crate::mount::MountConfig;
use crate::open::Opener;
use crate::ports::PortOptions;

/// Options of a machine.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct MachineOptions {
    /// CPUs of the machine, 1 to 64
    #[arg(long, value_name = "N", default_value_t)]
    pub cpus: CpuCount,
    /// Memory of the machine, such as 64M or 1G
    #[arg(short, long, value_name = "SIZE", default_value_t)]
    pub memory: MemorySize,
    /// An environment variable of the program; KEY alone takes the host's value; may be given several times
    #[arg(short, long, value_name = "KEY[=VALUE]")]
    pub env: Vec<EnvOption>,
    /// A file with an environment variable per line, as for `docker run`; `--env` takes precedence
    #[arg(long, value_name = "FILE")]
    pub env_file: Vec<PathBuf>,
    /// A file that the guest sees as a disk, /dev/vda for the first one; with :ro it cannot be written; bps=
    /// and iops= limit bytes and requests per second: 10M, or with a burst, 10M/64M
    #[arg(long, value_name = "FILE[:ro][,bps=RATE][,iops=RATE]")]
    pub block: Vec<DiskConfig>,
    /// A folder of the host that the guest sees at this path, such as ./site:/srv; with :ro it cannot be
    /// changed; cache= says how long the guest may rely on what it knows of names and attributes: auto, a
    /// second; always, for folders that nothing else changes; never; bps= and iops= limit bytes and requests
    /// per second, as for a disk; may be given several times
    #[arg(long, value_name = "HOST:GUEST[:ro][,cache=POLICY][,bps=RATE][,iops=RATE]")]
    pub mount: Vec<MountConfig>,
    /// The directory of the guest in which the program starts; / by default
    #[arg(short, long, value_name = "PATH", value_parser = parse_workdir)]
    pub workdir: Option<String>,
    /// The files that the program finds at /: a folder, or a tar archive; changes stay in the guest's memory
    #[arg(long, value_name = "DIR|FILE.tar")]
    pub root: Option<PathBuf>,
    /// Ports of the host that are forwarded to the guest.
    #[command(flatten)]
    pub ports: PortOptions,
    /// Wait for gdb before the first instruction: on this port of the host, 0 takes a free one, or on a UNIX
    /// socket at this path, such as ./gdb, which only its user can connect to
    #[arg(long, value_name = "PORT|PATH")]
    pub gdb: Option<GdbAddress>,
    /// Kill the guest after this time
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, allow_negative_numbers = true)]
    pub timeout: Option<Duration>,
    /// Kill a program that handles SIGTERM, SIGINT or SIGHUP this long after the signal; 10 by default
    #[arg(long, value_name = "SECONDS", value_parser = parse_grace, allow_negative_numbers = true)]
    pub grace: Option<Duration>,
    /// Print statistics at the end: run time, exits, memory
    #[arg(long)]
    pub stats: bool,
    /// Print each step, and why
    #[arg(short, long)]
    pub verbose: bool,
    /// Print only errors, beside the output of the program
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,
}

impl MachineOptions {
    /// Returns the same options as arguments of a command line. Files with variables, and variables of the
    /// host, are passed by name, so that ps(1) does not show their values.
    #[must_use]
    pub fn to_arguments(&self) -> Vec<OsString> {
        let mut arguments = Vec::new();
        let mut add = |option: &str, value: OsString| arguments.extend([option.into(), value]);
        add("--cpus", self.cpus.to_string().into());
        add("--memory", self.memory.to_string().into());
        self.env.iter().for_each(|variable| add("--env", variable.as_os_str().to_owned()));
        self.env_file.iter().for_each(|file| add("--env-file", file.into()));
        self.block.iter().for_each(|disk| add("--block", disk.to_argument()));
        self.mount.iter().for_each(|mount| add("--mount", mount.to_argument()));
        self.workdir.iter().for_each(|path| add("--workdir", path.into()));
        self.root.iter().for_each(|root| add("--root", root.into()));
        self.ports.iter().for_each(|port| add("--publish", port.to_string().into()));
        self.gdb.iter().for_each(|address| add("--gdb", address.to_argument()));
        self.timeout.iter().for_each(|limit| add("--timeout", limit.as_secs_f64().to_string().into()));
        self.grace.iter().for_each(|grace| add("--grace", grace.as_secs_f64().to_string().into()));
        let flags = [("--stats", self.stats), ("--verbose", self.verbose), ("--quiet", self.quiet)];
        arguments.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag.into()));
        arguments
    }

    /// Returns the time that a program that handles signals may take to end.
    #[must_use]
    pub fn grace(&self) -> Duration {
        self.grace.unwrap_or(DEFAULT_GRACE)
    }

    /// Returns the opener for the files of these options.
    #[must_use]
    pub fn opener(&self) -> Opener {
        Opener::new(&self.mount)
    }

    /// Returns the program's environment: the variables of `--env-file` and `--env`. If several have the same
    /// name, only the last one counts.
    ///
    /// # Errors
    ///
    /// See [`EnvironmentError`].
    pub fn environment(&self) -> Result<Vec<Variable>, EnvironmentError> {
        environment::merge(&self.opener(), &self.env_file, &self.env)
    }
}

fn parse_workdir(text: &str) -> Result<String, &'static str> {
    if text.starts_with('/') { Ok(text.to_owned()) } else { Err("the path has to be absolute: /PATH") }
}

/// Returns the message about a guest that was killed because it reached its time limit.
#[must_use]
pub fn timeout_message(limit: Duration) -> String {
    format!("the guest ran for more than {} s and was killed", limit.as_secs_f64())
}

/// Returns the message about a guest that was killed because it did not end within the grace period.
#[must_use]
pub fn grace_message(grace: Duration) -> String {
    let grace = grace.as_secs_f64();
    format!("the guest did not end within {grace} s and was killed: --grace gives it more time")
}

#[cfg(test)]
mod tests {
    use super::MachineOptions;
    use clap::{CommandFactory, Parser};

    #[derive(Debug, Parser)]
    #[command(no_binary_name = true)]
    struct Arguments {
        #[command(flatten)]
        machine: MachineOptions,
    }

    fn parse(text: &str) -> Result<MachineOptions, clap::Error> {
        Arguments::try_parse_from(text.split_whitespace()).map(|arguments| arguments.machine)
    }

    #[test]
    fn options_are_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn options_and_arguments_are_inverse() {
        let all = "--cpus 2 --memory 64M --env A=b --env C --env-file f --block a:ro,bps=1024,iops=5/9 --mount a:/b:ro,cache=never,bps=1024,iops=5/9 --workdir /b --root tree.tar --publish 0:80/udp --gdb 0 \
                   --timeout 1.5 --grace 2.5 --stats --verbose";
        for text in ["--cpus 1 --memory 128M", all, "--cpus 1 --memory 128M --quiet"] {
            let words: Vec<_> = text.split_whitespace().collect();
            assert_eq!(parse(text).unwrap().to_arguments(), words);
        }
        let short = parse("-m 64M -e A=b -p 8080:80 -v").unwrap().to_arguments().join(" ".as_ref());
        assert_eq!(short, "--cpus 1 --memory 64M --env A=b --publish 8080:80 --verbose");
        assert_eq!(parse("--port 8080:80").unwrap().ports, parse("-p 8080:80").unwrap().ports);
    }

    #[test]
    fn invalid_options_are_rejected_with_a_hint() {
        for (text, hint) in [
            ("--cpus 65", "1 to 64"),
            ("--memory 64", "64M"),
            ("--env =a", "KEY=VALUE"),
            ("--block :ro", "FILE:ro"),
            ("--publish 80", "8080:80"),
            ("--timeout 0", "not a time limit"),
            ("--timeout -1", "not a time limit"),
            ("--grace -1", "not a grace period"),
            ("-q -v", "cannot be used with"),
            ("--mount a:b", "HOST:/GUEST"),
            ("--workdir a", "absolute"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(hint), "{text}: {error}");
        }
    }
}
