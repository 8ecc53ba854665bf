//! The developers' commands of `cargo xtask`: lint, patches, test, bench, figures and addr2line. For these
//! commands, `cargo xtask` builds and starts this program.

#![forbid(unsafe_code)]

mod addr2line;
mod bench;
mod burst;
mod children;
mod compatibility;
mod figures;
#[cfg(test)]
mod guides;
mod lint;
mod patches;
mod test;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use xtask::{exit, temporary};

/// Checks, tests and measures this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the tests: lints and all rings, or only the rings named
    Test(test::Arguments),
    /// Measure sizes, times and instructions, beside Linux and QEMU
    Bench(bench::Arguments),
    /// Write the tables of figures in documents from the record of measurements
    Figures(figures::Arguments),
    /// Check formatting, clippy and the project's own rules
    Lint(lint::Arguments),
    /// Check the patches of other projects' sources, or adapt them to another version
    Patches(patches::Arguments),
    /// Print the lines of source that addresses in a guest's backtrace belong to
    Addr2line(addr2line::Arguments),
    /// Measure the network, in a namespace that is made for it
    #[command(hide = true)]
    NetBench(bench::net::NetBenchPlan),
}

/// Returns all commands of `cargo xtask`: those for users and those of this program.
fn command_line() -> clap::Command {
    let own = Arguments::command();
    own.get_subcommands().fold(xtask::cli::Arguments::command(), |all, own| {
        all.mut_subcommand(own.get_name(), |_| own.clone())
    })
}

fn main() -> ExitCode {
    let command = Arguments::parse().command;
    let _temporary = temporary::prepare();
    exit::of_command(match command {
        Command::Test(arguments) => test::main(&arguments),
        Command::Bench(arguments) => bench::main(&arguments),
        Command::Figures(arguments) => figures::main(&arguments),
        Command::Lint(arguments) => lint::main(&arguments),
        Command::Patches(arguments) => patches::main(&arguments),
        Command::Addr2line(arguments) => addr2line::main(&arguments),
        Command::NetBench(plan) => bench::net::inside(&plan),
    })
}
