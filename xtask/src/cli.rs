//! The command line.

pub mod patch_config;
pub mod setup;

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use crate::{image, run, runner};

/// Builds, boots and tests programs as virtual-machine images.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version, arg_required_else_help = true)]
pub struct Arguments {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// A command of the build tool.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Install std, core and alloc for the target in the toolchain, and QEMU if uhyve does not work
    Setup(setup::Arguments),
    /// Build a program if need be and run it in a virtual machine
    Run(Box<run::Arguments>),
    /// Make one file that boots with `qemu-system-x86_64 -kernel FILE`
    Image(image::Arguments),
    /// Run uhyve, the hypervisor, with arguments of its own
    #[command(disable_help_flag = true)]
    Uhyve(Forwarded),
    /// Configure cargo in another workspace for crates that are patched for the target
    PatchConfig(patch_config::Arguments),
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
    /// Check the patches of other projects' sources, or adapt them to another version
    #[command(disable_help_flag = true)]
    Patches(Forwarded),
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

/// Arguments of a command that another program parses: `xtask-dev`, or uhyve.
#[derive(Debug, clap::Args)]
pub struct Forwarded {
    /// Arguments of the command, which `cargo xtask COMMAND --help` lists
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
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
    fn forwarded_commands_accept_any_argument() {
        for words in [
            &["test", "--help"][..],
            &["bench", "net", "--net-platform", "qemu"],
            &["lint"],
            &["uhyve", "--engine", "process", "image", "--", "-v"],
        ] {
            assert!(Arguments::try_parse_from([&["xtask"], words].concat()).is_ok(), "{words:?}");
        }
        assert!(Arguments::try_parse_from(["xtask", "run", "--unknown"]).is_err());
    }
}
