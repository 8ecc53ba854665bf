//! The build tool of the workspace: `cargo xtask COMMAND`.

#![forbid(unsafe_code)]

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use anyhow::{Error, Result};
use clap::{Parser, Subcommand};
use hermit_options::passt;
use xtask::cargo::TOOLS_PROFILE;
use xtask::{crates, exit, image, process, run, runner, setup, temporary, workspace};

/// Builds, boots and tests programs as virtual-machine images.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Install std, core and alloc for the target in the toolchain, and QEMU if uhyve does not work
    Setup(setup::Arguments),
    /// Build a program if need be and run it in a virtual machine
    Run(Box<run::Arguments>),
    /// Make one file that boots with `qemu-system-x86_64 -kernel FILE`
    Image(image::Arguments),
    /// Configure cargo in another workspace for crates that are patched for the target
    PatchConfig(crates::Arguments),
    /// Run the tests: lints and all rings, or only the rings named
    #[command(disable_help_flag = true)]
    Test(Forwarded),
    /// Measure sizes, times and instructions, beside Linux and QEMU
    #[command(disable_help_flag = true)]
    Bench(Forwarded),
    /// Write the tables of figures in documents from the record of measurements
    #[command(disable_help_flag = true)]
    Figures(Forwarded),
    /// Check formatting, clippy and the project's own rules
    #[command(disable_help_flag = true)]
    Lint(Forwarded),
    /// Print the lines of source that addresses in a guest's backtrace belong to
    #[command(disable_help_flag = true)]
    Addr2line(Forwarded),
    /// Run a program as cargo's target runner does
    #[command(hide = true)]
    Runner(runner::Arguments),
    /// Measure the network, in a namespace that is made for it
    #[command(hide = true, disable_help_flag = true)]
    NetBench(Forwarded),
}

/// Arguments of a developers' command, which `xtask-dev` parses.
#[derive(Debug, clap::Args)]
struct Forwarded {
    /// Arguments of the command, which `cargo xtask COMMAND --help` lists
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

fn main() -> ExitCode {
    if let Some(code) = passt::supervise() {
        return code;
    }
    let command = Arguments::parse().command;
    // Neither `run` nor a forwarded command needs a temporary folder of this process: it may become another program by exec,
    // which drops nothing.
    let _temporary = matches!(command, Command::Setup(_) | Command::Image(_)).then(temporary::prepare);
    match command {
        Command::Setup(arguments) => exit::of_command(setup::main(&arguments)),
        Command::Run(arguments) => exit::of_guest(run::main(&arguments)),
        Command::Image(arguments) => exit::of_command(image::main(&arguments)),
        Command::PatchConfig(arguments) => exit::of_command(crates::main(&arguments)),
        Command::Runner(arguments) => exit::of_guest(runner::main(&arguments)),
        Command::Test(_)
        | Command::Bench(_)
        | Command::Figures(_)
        | Command::Lint(_)
        | Command::Addr2line(_)
        | Command::NetBench(_) => exit::of_command(become_xtask_dev()),
    }
}

/// Replaces this process by `xtask-dev` with the same arguments, built by cargo if need be, from the libraries of this program.
fn become_xtask_dev() -> Result<()> {
    let mut cargo = process::cargo();
    cargo.args(["run", "--package", "xtask-dev", "--profile", TOOLS_PROFILE]);
    // Compiling it for the first time takes long enough to show it.
    if workspace::target_dir().join(TOOLS_PROFILE).join("xtask-dev").exists() {
        cargo.arg("--quiet");
    }
    cargo.arg("--manifest-path").arg(workspace::root().join("Cargo.toml"));
    cargo.arg("--").args(env::args_os().skip(1));
    Err(Error::new(cargo.exec()).context("cannot start cargo"))
}

#[cfg(test)]
mod tests {
    use super::Arguments;
    use clap::{CommandFactory, Parser};

    #[test]
    fn arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn developer_commands_accept_any_argument() {
        for words in [&["test", "--help"][..], &["bench", "net", "--net-platform", "qemu"], &["lint"]] {
            assert!(Arguments::try_parse_from([&["xtask"], words].concat()).is_ok(), "{words:?}");
        }
        assert!(Arguments::try_parse_from(["xtask", "run", "--unknown"]).is_err());
    }
}
